// Presses keys on a page whose address ends with ?keys, and writes into the title where the focus was after each. The server of the tests adds it
// to search.js.
if (location.search === '?keys') {
  addEventListener('load', async () => {
    const seen = [];
    const press = key => {
      document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
      const at = document.activeElement;
      seen.push(at.id || at.getAttribute('href').replace(/.*v0\.2\.0\//, ''));
    };
    press('/');
    const input = document.activeElement;
    input.value = 'zonal shift';
    input.dispatchEvent(new Event('input'));
    while (!document.querySelector('#found li')) await new Promise(resolve => setTimeout(resolve, 10));
    press('ArrowDown');
    press('ArrowDown');
    press('ArrowUp');
    press('Escape');
    seen.push(document.getElementById('found').hidden ? 'hidden' : 'shown');
    document.title = seen.join('; ');
  });
}
