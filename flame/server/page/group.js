// Shows the flame graph grouped by what is chosen of #group. The address keeps it, and what the view shows; but places
// in the graph are others then.
'use strict';

(function () {
  const group = document.getElementById('group');
  if (!group) return;
  group.addEventListener('change', () => {
    const query = new URLSearchParams(location.search);
    if (group.value) query.set('tagroot', group.value);
    else query.delete('tagroot');
    const state = new URLSearchParams(location.hash.slice(1));
    for (const place of ['zoom', 'callers', 'callees']) state.delete(place);
    location.assign('./flame?' + query + (String(state) && '#' + state));
  });
  // A browser that goes back may keep what was chosen last.
  window.addEventListener('pageshow', () => {
    group.value = new URLSearchParams(location.search).get('tagroot') || '';
  });
})();
