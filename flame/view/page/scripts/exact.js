// If nodes are folded, or profiles are left out, the view asks the server for the missing data: functions, the share of
// a search, callers and callees are then for all samples.

const EXACT_FUNCTIONS = 10000; // number of functions to ask for at once, the largest totals first

// addFunction adds a function of api/top to the data.
function addFunction(data, f, text) {
  const { frames, functions, mappings } = data;
  let mapping = -1;
  if (f.binary) {
    const file = text(f.binary);
    mapping = mappings.file.indexOf(file);
    if (mapping < 0) {
      mapping = mappings.file.push(file) - 1;
      mappings.build.push(text(''));
    }
  }
  const kind = Math.max(0, data.kinds.name.indexOf(f.kind));
  const row = { name: text(f.name), file: text(''), start: 0, mapping, kind, inlined: 0, of: functions.self.length };
  for (const [column, value] of Object.entries({ ...row, self: 0, total: 0 })) frames[column].push(value);
  functions.self.push(0);
  functions.total.push(0);
}

// Exact asks the server once for each thing that the view shows, and updates the view with the answer.
class Exact {
  constructor(view) {
    this.view = view;
    this.asked = new Set();
    this.found = new Map(); // by search: matching share of all samples
    this.sandwiches = new Map(); // by function: trees of its callers and of its callees
    this.count = 0; // number of functions, 0 until known
    this.version = 0; // grows with each answer
    this.failure = '';
  }

  get data() {
    return this.view.profile.data;
  }

  // isPartial reports whether the flame graph shows only a part of the profiles.
  get isPartial() {
    return this.data.profiles < this.data.of;
  }

  // holds reports whether the server's answers match the view: the server does not apply the view's filters.
  get holds() {
    const { state } = this.view;
    return !state.focus.length && !state.hide.length;
  }

  // ask requests the data that the current view lacks.
  ask() {
    const { view } = this;
    const { search } = view.state;
    const { top } = view.root.dataset;
    if (!top || !this.holds || !(this.isPartial || this.data.omitted.nodes > 0)) return;
    if (!this.isPartial && !search && view.mode !== 'table' && view.mode !== 'sandwich') return;
    const url = top + '&sort=total&limit=' + EXACT_FUNCTIONS;
    this.once('top', url, (answer) => this.take(answer, ''));
    clearTimeout(this.typing);
    if (search) {
      this.typing = setTimeout(
        () =>
          this.once('search ' + search, url + '&search=' + encodeURIComponent(search), (answer) =>
            this.take(answer, search),
          ),
        200,
      );
    }
    if (view.mode === 'sandwich' && this.count > 0) this.askSandwich(view.function);
  }

  askSandwich(fn) {
    const { profile, root } = this.view;
    const of = { function: profile.name(fn), binary: profile.binary(profile.first[fn]) };
    const url = root.dataset.sandwich + '&' + new URLSearchParams(of);
    this.once('sandwich ' + fn, url, (answer) => this.takeSandwich(answer, fn));
  }

  // once sends a request, unless it was sent before.
  async once(key, url, take) {
    if (this.asked.has(key)) return;
    this.asked.add(key);
    try {
      const answer = await fetch(url);
      const data = await answer.json();
      if (!answer.ok) throw new Error(data.error);
      if (data.of !== this.data.of) throw new Error('some of the profiles are no longer kept');
      take(data);
    } catch (error) {
      this.failure = 'The figures cover only the flame graph: ' + error.message + '.';
    }
    this.version++;
    this.view.refresh();
  }

  // take adds functions to the profile: the functions of a search, or the largest of all functions.
  take(top, search) {
    const { profile } = this.view;
    const { data } = this;
    const { functions } = data;
    if (search) {
      this.found.set(search, top.found / top.total);
    } else {
      this.count = top.count;
      if (this.isPartial) for (const column of [functions.self, functions.total]) column.fill(0); // partial sums
    }
    const strings = new Ids(data.strings);
    const text = (s) => strings.of(s, () => data.strings.push(s));
    const numbers = new Map(data.frames.of.map((fn, i) => [functionKey(data, i), fn]));
    for (const f of top.functions) {
      const key = f.name + '\0' + f.binary;
      if (!numbers.has(key)) {
        numbers.set(key, functions.self.length);
        addFunction(data, f, text);
      }
      functions.self[numbers.get(key)] = f.self / data.scale;
      functions.total[numbers.get(key)] = f.total / data.scale;
    }
    profile.all = top.total / data.scale;
    profile.readFrames();
  }

  // takeSandwich builds the trees of the callers and callees of a function.
  takeSandwich(answer, fn) {
    const { profile } = this.view;
    const { data } = this;
    const scaled = (of) => {
      const frames = addFrames(data, of, 0);
      const times = (column) => column.map((value) => (value * of.scale) / data.scale);
      const frame = of.nodes.frame.map((i) => (i < 0 ? i : frames[i]));
      return { ...of.nodes, frame, self: times(of.nodes.self), total: times(of.nodes.total) };
    };
    const nodes = [scaled(answer.callers), scaled(answer.callees)];
    profile.readFrames();
    this.sandwiches.set(
      fn,
      nodes.map((n) => new Tree(profile, n, answer.all / data.scale)),
    );
    this.view.shown = {}; // frames and their colours may have changed
  }

  // note returns a remark about the functions in a table.
  note(listed) {
    if (this.holds && this.count > 0) {
      return listed < this.count ? ' There are ' + count(this.count) + ' in total; the search finds all of them.' : '';
    }
    return this.data.omitted.nodes > 0 ? ' Functions only in folded frames are listed if they are large.' : '';
  }
}
