// Refreshes the live parts of the overview. Without scripts the page works, and is
// refreshed by reloading it.
'use strict';

(function () {
  const seconds = Number(document.body.dataset.refresh) || 15;
  const pause = document.getElementById('pause');
  let paused = false;
  let dirty = false; // the visitor is choosing something in the form

  pause.hidden = false;
  pause.addEventListener('click', function () {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    pause.textContent = paused ? 'Resume refresh' : 'Pause refresh';
  });
  document.addEventListener('change', function (event) {
    if (event.target.closest('#choose')) dirty = true;
  });

  // mayReplace reports whether a part can change without disturbing the visitor.
  function mayReplace(part) {
    if (part.id === 'choose' && (dirty || part.contains(document.activeElement))) return false;
    const text = window.getSelection();
    return !(text && !text.isCollapsed && part.contains(text.anchorNode));
  }

  function replace(part, fresh) {
    const focus = part.contains(document.activeElement) ? document.activeElement.id : '';
    const scrolled = Array.from(part.querySelectorAll('.scroll'), (e) => e.scrollLeft);
    part.replaceChildren(...fresh.childNodes);
    part.querySelectorAll('.scroll').forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
    const again = focus && document.getElementById(focus);
    if (again) again.focus({ preventScroll: true });
  }

  async function refresh() {
    if (paused || document.visibilityState !== 'visible') return;
    let page;
    try {
      const answer = await fetch(location.href, { cache: 'no-store' });
      if (!answer.ok) throw new Error(String(answer.status));
      page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    } catch (error) {
      document.title = 'Not reachable · Headwater';
      return; // the profiler may come back
    }
    document.title = page.title;
    const parts = Array.from(document.querySelectorAll('.live'), (e) => e.id).join();
    if (parts !== Array.from(page.querySelectorAll('.live'), (e) => e.id).join()) {
      location.reload();
      return;
    }
    for (const part of document.querySelectorAll('.live')) {
      if (mayReplace(part)) replace(part, page.getElementById(part.id));
    }
  }

  setInterval(refresh, seconds * 1000);
})();
