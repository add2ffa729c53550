// What a view shows is in the part of the address after #, so that a link shows the same to somebody else.

const MODES = { table: 'Table', both: 'Both', flame: 'Flame', sandwich: 'Sandwich', tree: 'Tree' };

// A state has, by the names of the address: zoom, callers and callees (paths of the nodes that charts are zoomed to),
// focus, hide and function (labels of functions), and what is chosen of the controls. '' is for what is not chosen.
const NO_STATE = {
  mode: '',
  zoom: '',
  callers: '',
  callees: '',
  search: '',
  focus: [],
  hide: [],
  function: '',
  color: '',
  order: '',
  up: '',
  sort: '',
  only: '',
};

// readState returns the state of an address's part after #.
function readState(hash) {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const state = {};
  for (const [key, none] of Object.entries(NO_STATE)) {
    state[key] = Array.isArray(none) ? parameters.getAll(key) : parameters.get(key) || '';
  }
  if (!MODES[state.mode]) state.mode = '';
  return state;
}

// stateText is the reverse of readState.
function stateText(state) {
  const parameters = new URLSearchParams();
  for (const key of Object.keys(NO_STATE)) {
    for (const value of [].concat(state[key])) if (value) parameters.append(key, value);
  }
  return parameters.toString();
}

// Preference is what a person has chosen for all views: it is kept by the browser, and not in links.
class Preference {
  constructor(key) {
    this.key = 'headwater-' + key;
  }

  get() {
    try {
      return localStorage.getItem(this.key) || '';
    } catch (error) {
      return ''; // a browser may keep nothing
    }
  }

  set(value) {
    try {
      localStorage.setItem(this.key, value);
    } catch (error) {
      // It holds until the page is left.
    }
  }
}
