// Search in the pages of this site: reads search.json when somebody begins to type, and asks no server.
'use strict';

// find returns the rows that have all words of a query, the best first.
function find(rows, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const found = [];
  rows.forEach((row, order) => {
    const page = row.page.toLowerCase(), heading = row.heading.toLowerCase(), text = row.text.toLowerCase();
    let score = 0;
    for (const word of words) {
      const here = 8 * heading.includes(word) + 4 * page.includes(word) + Math.min(3, text.split(word).length - 1);
      if (here === 0) return;
      score += here;
    }
    found.push({row, score, order});
  });
  found.sort((a, b) => b.score - a.score || a.order - b.order);
  return found.map(f => f.row);
}

// excerpt is the text around the first of the words that is in it.
function excerpt(text, query) {
  const lower = text.toLowerCase();
  const at = query.toLowerCase().split(/\s+/).filter(Boolean).map(w => lower.indexOf(w)).filter(i => i >= 0);
  const from = Math.max(0, Math.min(...at, text.length) - 60);
  return (from > 0 ? '…' : '') + text.slice(from, from + 200) + (from + 200 < text.length ? '…' : '');
}

(function () {
  const most = 20;
  const root = new URL('.', document.currentScript.src);
  const input = document.getElementById('query');
  const section = document.getElementById('found');
  const status = section.querySelector('p');
  const list = section.querySelector('ol');
  let rows;

  function load() {
    rows ??= fetch(new URL('search.json', root)).then(answer => answer.json());
    return rows;
  }

  async function show() {
    const query = input.value;
    section.hidden = query.trim() === '';
    if (section.hidden) return;
    let all;
    try {
      all = find(await load(), query);
    } catch (error) {
      rows = undefined;
      status.textContent = 'The index could not be read: search needs the pages to be served by HTTP.';
      list.replaceChildren();
      return;
    }
    if (query !== input.value) return; // somebody has typed on
    status.textContent = all.length === 1 ? '1 section found' : all.length + ' sections found' + (all.length > most ? ', the first ' + most + ' are:' : '');
    list.replaceChildren(...all.slice(0, most).map(row => {
      const item = document.createElement('li'), link = document.createElement('a'), text = document.createElement('span');
      link.href = new URL(row.path, root);
      link.textContent = row.page === row.heading ? row.page : row.page + ' › ' + row.heading;
      text.textContent = excerpt(row.text, query);
      item.append(link, text);
      return item;
    }));
  }

  // move puts the focus on the result before or after that which has it.
  function move(event) {
    const stops = [input, ...list.querySelectorAll('a')];
    const at = stops.indexOf(document.activeElement);
    if (at < 0) return;
    const next = stops[at + (event.key === 'ArrowDown' ? 1 : -1)];
    if (next) next.focus();
    event.preventDefault();
  }

  document.addEventListener('keydown', event => {
    if (event.key === '/' && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      input.focus();
      event.preventDefault();
    } else if (event.key === 'Escape' && !section.hidden) {
      input.value = '';
      show();
      input.focus();
    } else if ((event.key === 'ArrowDown' || event.key === 'ArrowUp') && !section.hidden) {
      move(event);
    }
  });
  input.form.addEventListener('submit', event => {
    event.preventDefault();
    const first = list.querySelector('a');
    if (first) first.click();
  });
  input.addEventListener('input', show);
  input.disabled = false;
  const asked = new URLSearchParams(location.search).get('q');
  if (asked) {
    input.value = asked;
    show();
  }
})();
