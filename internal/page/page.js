"use strict";
(() => {
  const live = document.getElementById("live");
  const say = text => { if (live.textContent !== text) live.textContent = text; };
  const reload = () => setTimeout(() => location.reload(), 10000);
  const show = html => {
    const fresh = new DOMParser().parseFromString(html, "text/html").querySelector("main");
    const main = document.querySelector("main");
    const focused = document.activeElement && document.activeElement.id;
    const kept = new Set();
    for (const part of fresh.children) {
      kept.add(part.id);
      const old = document.getElementById(part.id);
      if (old && old.outerHTML === part.outerHTML) continue;
      const open = [...(old ? old.querySelectorAll("[tabindex]") : [])].map(e => [e.id, e.scrollTop, e.scrollLeft]);
      const copy = part.cloneNode(true);
      if (old) old.replaceWith(copy);
      else {
        const next = [...fresh.children].slice([...fresh.children].indexOf(part) + 1).map(e => document.getElementById(e.id)).find(e => e);
        main.insertBefore(copy, next || null);
      }
      for (const [id, top, left] of open) {
        const e = document.getElementById(id);
        if (e) { e.scrollTop = top; e.scrollLeft = left; }
      }
    }
    for (const part of [...main.children]) if (!kept.has(part.id)) part.remove();
    if (focused && document.activeElement.id !== focused) {
      const e = document.getElementById(focused);
      if (e) e.focus({preventScroll: true});
    }
    document.title = main.querySelector("[data-title]").dataset.title;
  };
  const stream = new EventSource("?format=events");
  stream.onopen = () => say("Updates by itself.");
  stream.onmessage = event => show(event.data);
  stream.onerror = () => {
    if (stream.readyState === EventSource.CLOSED) { say("Loads anew every 10 seconds."); reload(); }
    else say("Not connected; tries again.");
  };
})();
