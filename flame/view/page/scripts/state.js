// The state of a view is in the part of the URL after #, so that a link shows the same view to other users.

const MODES = { table: 'Table', both: 'Both', flame: 'Flame', sandwich: 'Sandwich', tree: 'Tree' };

// A state has, by the names in the URL: zoom, callers and callees (paths of the nodes that charts are zoomed to),
// focus, hide and function (labels of functions), and the values of the controls. '' stands for an unset value.
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

// readState returns the state for the part of a URL after #.
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

// Preference is a user's choice for all views. The browser keeps it, and links do not have it.
class Preference {
  constructor(key) {
    this.key = 'headwater-' + key;
  }

  get() {
    try {
      return localStorage.getItem(this.key) || '';
    } catch (error) {
      return ''; // the browser may refuse to store data
    }
  }

  set(value) {
    try {
      localStorage.setItem(this.key, value);
    } catch (error) {
      // It is valid until the user leaves the page.
    }
  }
}
