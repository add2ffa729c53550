// View is the whole page of a flame graph below its heading. Its state is one object; apply changes it, and refresh
// updates the changed parts of the page.
class View {
  constructor(root, data) {
    this.root = root;
    this.profile = new Profile(data);
    this.subject = data.diff ? new Comparison(this.profile) : new Plain(this.profile);
    this.full = new Tree(this.profile, data.nodes);
    this.state = readState(location.hash);
    this.shown = {}; // values shown last, by subject
    this.back = []; // previous states
    this.exact = new Exact(this);
    this.narrow = matchMedia('(max-width: 600px)');
    this.build();
    this.listen();
    this.refresh();
  }

  // For tests, and for the browser's console.
  get chart() {
    return this.main.element;
  }
  get tree() {
    return this.main.tree;
  }
  box(node) {
    return this.main.box(node);
  }
  zoom(node) {
    this.zoomTo(this.main, node);
  }
  shorten(name) {
    return shorten(name);
  }
  searchFor(text) {
    this.apply({ search: text });
  }

  // mode returns the current mode: by default the table on a phone, and both elsewhere.
  get mode() {
    return this.state.mode || (this.narrow.matches ? 'table' : 'both');
  }
  get color() {
    return this.subject.colourings[this.state.color] ? this.state.color : Object.keys(this.subject.colourings)[0];
  }

  build() {
    this.theme = new Theme();
    this.menu = new Menu();
    this.tip = new Tip();
    this.help = helpDialog();
    this.lines = new Lines(this);
    this.palette = new Palette(document.body);
    this.controls = new Controls(this);
    this.search = this.controls.search;
    this.said = element('p', { class: 'hidden', role: 'status', id: 'said' });
    this.notice = element('p', { class: 'notice', role: 'status', id: 'notice' });
    this.main = new Chart(this, 'chart', 'Flame graph');
    this.above = new Chart(this, 'callers', 'Callers');
    this.below = new Chart(this, 'callees', 'Callees');
    this.stateKeys = new Map([
      [this.main, 'zoom'],
      [this.above, 'callers'],
      [this.below, 'callees'],
    ]);
    for (const chart of this.stateKeys.keys()) new ChartInput(this, chart);
    this.sandwichTitle = element('h2', { id: 'sandwich-heading' });
    this.sandwich = element(
      'section',
      { class: 'sandwich', 'aria-labelledby': 'sandwich-heading' },
      this.sandwichTitle,
      element('h3', {}, 'Callers'),
      this.above.element,
      element('h3', {}, 'Callees'),
      this.below.element,
    );
    this.table = new FunctionTable(this.subject, {
      open: (fn, at) => this.openFunction(fn, at),
      menu: (fn, at, event) => this.functionMenu(fn, at, event),
      sorted: (sort) => this.apply({ sort }),
    });
    this.calls = new TreeGrid(this.subject, { menu: (node, at, event) => this.rowMenu(node, at, event) });
    this.root.replaceChildren(
      ...this.controls.elements(),
      this.notice,
      this.main.element,
      this.sandwich,
      element('p', { class: 'note', id: 'keys' }, this.subject.hint),
      this.calls.element,
      this.table.element,
      this.said,
      this.tip.element,
      this.menu.element,
      this.help,
      this.lines.element,
    );
  }

  listen() {
    const recolor = () => {
      this.palette.forget();
      this.draw();
    };
    this.recolor = recolor;
    this.theme.media.addEventListener('change', recolor);
    this.narrow.addEventListener('change', () => this.refresh());
    window.addEventListener('hashchange', () => {
      if (location.hash.slice(1) === this.written) return;
      this.state = readState(location.hash);
      this.refresh();
    });
    document.addEventListener('keydown', (event) => this.key(event));
  }

  draw() {
    for (const chart of this.stateKeys.keys()) chart.draw();
  }

  // apply changes the state. With undo, Esc returns to the previous state.
  apply(changes, undo) {
    if (undo) this.back.push(this.state);
    this.state = { ...this.state, ...changes };
    this.refresh();
  }

  goBack() {
    if (!this.back.length) return;
    this.state = { ...this.back.pop(), search: this.state.search };
    this.refresh();
  }

  // showMode handles a click on a button of the modes. A sandwich shows the function that is searched for, if any.
  showMode(mode) {
    const searched = mode === 'sandwich' && this.state.search ? { function: '', callers: '', callees: '' } : {};
    this.apply({ mode, ...searched }, true);
  }

  showAll() {
    this.apply({ zoom: '', focus: [], hide: [] }, true);
  }
  turnUp() {
    this.apply({ up: this.state.up ? '' : '1' });
  }

  turnTheme() {
    this.theme.turn();
    this.recolor();
  }

  async copyLink() {
    this.writeState();
    await copy(location.href);
    this.notice.textContent = 'The link is copied.';
  }

  // changed reports whether values differ from the values shown last for a subject.
  changed(subject, ...values) {
    const key = JSON.stringify(values);
    if (this.shown[subject] === key) return false;
    this.shown[subject] = key;
    return true;
  }

  // functions returns the functions with the given labels, and records labels that are not in the profile.
  functions(labels) {
    return labels
      .map((label) => {
        const fn = this.profile.find(label);
        if (fn < 0) this.missing.push(label);
        return fn;
      })
      .filter((fn) => fn >= 0);
  }

  refresh() {
    const { state } = this;
    this.missing = [];
    const focus = this.functions(state.focus);
    const hide = this.functions(state.hide);
    const newTree = this.changed('tree', focus, hide, state.order);
    if (newTree) this.makeTree(focus, hide);
    const newColors = this.changed('color', this.color) || newTree;
    if (newColors) this.makeGroups();
    this.only = state.only ? this.colouring.groups.findIndex((group) => group.key === state.only) : -1;
    const newSums = this.changed('exact', this.exact.version) || newTree;
    if (newSums) this.sum();
    const newSearch = this.changed('search', state.search) || newSums;
    if (newSearch) this.find();
    const { mode } = this;
    const has = (...modes) => modes.includes(mode);
    this.main.element.hidden = !has('both', 'flame');
    this.sandwich.hidden = !has('sandwich');
    this.calls.element.hidden = !has('tree');
    this.table.element.hidden = !has('both', 'table', 'sandwich');
    this.root.dataset.mode = mode;
    this.showMain(newTree, newColors);
    if (has('sandwich')) this.showSandwich(newTree, newColors);
    this.showTable(newTree, newSearch);
    if (has('tree') && this.changed('calls', mode, this.color, state.search, state.zoom, focus, hide, state.order)) {
      this.calls.show(this.current, this.groups, this.colouring, this.main.zoomed, this.matching);
    }
    if (this.changed('legend', this.color, state.only, focus, hide)) this.showLegend();
    this.controls.fillFilters(this.current.total, this.profile.total);
    this.controls.update();
    this.notice.textContent = this.missing.length ? 'Not in this profile: ' + this.missing.join(', ') : this.exact.failure;
    this.draw();
    this.exact.ask();
    this.writeSoon();
  }

  makeTree(focus, hide) {
    const order = this.state.order === 'name' ? 'name' : 'size';
    this.current = filtered(this.full, focus, hide, order);
    this.paths = new Map(); // by chart, created when needed
  }

  // sum sets the sums of functions: with filters for the shown nodes, otherwise for all samples.
  sum() {
    const filters = this.state.focus.length || this.state.hide.length;
    this.sums = filters ? this.current.sums() : this.profile.sums;
    this.all = filters ? this.profile.total : this.profile.all;
  }

  makeGroups() {
    this.colouring = this.subject.colourings[this.color](this.profile);
    this.groups = groupsOf(this.colouring, this.current);
  }

  // pale reports whether a frame is drawn paler: an inlined frame, unless its colour shows this already.
  pale(frame) {
    return (
      frame >= 0 &&
      this.profile.data.frames.inlined[frame] === 1 &&
      this.color !== 'change' &&
      !(this.color === 'origin' && this.profile.kind(frame) === 'inlined')
    );
  }

  showLegend() {
    const whole = this.current.total === this.profile.total && this.color === 'origin' && this.current === this.full;
    const sums = whole ? this.profile.data.kinds : groupSums(this.current, this.groups, this.colouring.groups.length);
    this.controls.fillLegend(this.colouring, sums, this.current.total);
  }

  showMain(newTree, newColors) {
    const again = this.changed('up', this.state.up);
    if (newTree || newColors || again) {
      this.main.show(this.current, this.groups, this.state.up !== '');
      this.shown.zoom = undefined;
    }
    this.showZoom(this.main);
    this.controls.fillCrumbs(this.main);
  }

  // showZoom zooms a chart to the node in the state.
  showZoom(chart) {
    const key = this.stateKeys.get(chart);
    if (!this.changed(key, this.state[key])) return;
    const node = this.pathsOf(chart).find(this.state[key]);
    if (node < 0) {
      this.missing.push('the zoomed frame');
      this.state = { ...this.state, [key]: '' };
    }
    chart.zoom(Math.max(0, node));
  }

  pathsOf(chart) {
    if (!this.paths.has(chart) || this.paths.get(chart).tree !== chart.tree)
      this.paths.set(chart, new Paths(chart.tree));
    return this.paths.get(chart);
  }

  // likely returns the function of a sandwich if none was chosen. With a search it is the matching function with that
  // name, or with the largest total, otherwise the function with the largest self.
  likely() {
    const { sums, profile } = this;
    const name = this.state.search.toLowerCase();
    let best = -1;
    const rank = (fn) => (profile.name(fn).toLowerCase() === name ? Infinity : sums.total[fn]);
    profile.of.forEach((fn, frame) => {
      if (this.matching && this.matching[frame] && sums.total[fn] > 0 && (best < 0 || rank(fn) > rank(best))) best = fn;
    });
    return best < 0 ? sums.self.indexOf(Math.max(...sums.self)) : best;
  }

  // showSandwich shows the callers and callees of the chosen function, or of the likely function.
  showSandwich(newTree, newColors) {
    const chosen = this.state.function ? this.functions([this.state.function])[0] : undefined;
    const fn = chosen === undefined ? this.likely() : chosen;
    const exact = (this.exact.holds && this.exact.sandwiches.get(fn)) || null;
    if (!this.changed('sandwich', fn, this.color, exact !== null, this.exact.version) && !newTree && !newColors) {
      this.showZoom(this.above);
      this.showZoom(this.below);
      return;
    }
    const order = this.state.order === 'name' ? 'name' : 'size';
    this.function = fn;
    this.sandwichTitle.replaceChildren(
      shorten(this.profile.name(fn)),
      ' ',
      element(
        'span',
        { class: 'share' },
        'total ' +
          percent(this.sums.total[fn], this.all) +
          ', self ' +
          percent(this.sums.self[fn], this.all),
      ),
    );
    const [above, below] = exact
      ? exact.map((tree) => callees(tree, fn, order)) // callers are below the function there
      : [callers(this.current, fn, order), callees(this.current, fn, order)];
    for (const [chart, tree, up] of [
      [this.above, above, true],
      [this.below, below, false],
    ]) {
      chart.show(tree, groupsOf(this.colouring, tree), up);
      this.shown[this.stateKeys.get(chart)] = undefined;
      this.showZoom(chart);
    }
  }

  showTable(newTree, newSearch) {
    if (this.table.element.hidden) {
      this.shown.table = undefined;
      return;
    }
    if (!this.changed('table', this.state.sort) && !newTree && !newSearch) return;
    const has = new Uint8Array(this.profile.functions).fill(this.matching ? 0 : 1);
    if (this.matching)
      this.profile.of.forEach((fn, frame) => {
        has[fn] |= this.matching[frame];
      });
    const total = this.exact.holds ? this.all : this.current.total;
    const sort = this.state.sort || this.subject.sort;
    this.table.show(
      this.sums,
      total,
      sort,
      (fn) => has[fn] === 1,
      (listed) => (this.matching ? '' : this.exact.note(listed)),
    );
  }

  // find marks the frames that match the search, and shows their share.
  find() {
    const { search } = this.state;
    this.matching = search ? this.profile.matches(search) : null;
    let text = '';
    if (search) {
      const { matching, current: tree } = this;
      const { frame: frames } = tree.nodes;
      let nodes = 0;
      let value = 0;
      let until = 0; // the end of the outermost match
      for (let i = 0; i < tree.length; i++) {
        if (frames[i] < 0 || !matching[frames[i]]) continue;
        nodes++;
        if (i < until) continue;
        value += tree.totalOf(i);
        until = tree.end[i];
      }
      const exact = this.exact.holds ? this.exact.found.get(search) : undefined;
      const share = exact === undefined ? percent(value, tree.total) : percent(exact, 1);
      text = count(nodes) + (nodes === 1 ? ' frame, ' : ' frames, ') + share;
    }
    this.controls.found.textContent = text;
  }

  zoomTo(chart, node) {
    if (chart === this.main && chart.tree.frame(node) < -1 && this.canUnfold) {
      this.unfolding = this.unfoldBelow(chart.tree.parent[node]);
      return;
    }
    const key = this.stateKeys.get(chart);
    const path = this.pathsOf(chart).of(node);
    if (node !== chart.zoomed) this.back.push(this.state);
    this.state = { ...this.state, [key]: path };
    this.changed(key, path);
    this.tip.hide();
    chart.zoom(node);
    if (chart === this.main) this.controls.fillCrumbs(chart);
    this.controls.update();
    this.writeSoon();
  }

  // canUnfold reports whether a server, or this file itself, has the folded nodes.
  get canUnfold() {
    return Boolean(this.root.dataset.unfold || document.getElementById('flame-whole'));
  }

  // partBelow returns a tree with the folded nodes below a node.
  async partBelow(path) {
    const whole = await wholeTree();
    if (whole) return whole;
    const answer = await fetch(this.root.dataset.unfold + '&max=20000&root=' + (path || pathText(PATH_ROOT)));
    const part = await answer.json();
    if (!answer.ok) throw new Error(part.error);
    return part;
  }

  // unfoldBelow shows the folded nodes below a node of the flame graph, and zooms to the node.
  async unfoldBelow(node) {
    const path = new Paths(this.current).of(node);
    const at = new Paths(this.full).find(path);
    let notice = '';
    try {
      if (at < 0) throw new Error('remove the filters first');
      const way = this.full.ancestors(at).slice(1);
      const frames = way.map((i) => this.full.frame(i));
      const part = await this.partBelow(path);
      const share = this.exact.isPartial ? 0 : 1;
      if (!unfold(this.profile.data, frames, part, share)) notice = 'There are too many frames to show all of them.';
    } catch (error) {
      notice = 'The folded frames cannot be shown: ' + error.message + '.';
    }
    this.profile.readFrames();
    this.full = new Tree(this.profile, this.profile.data.nodes);
    this.shown = {};
    this.apply({ zoom: path }, path !== this.state.zoom);
    if (notice) this.notice.textContent = notice;
  }

  describe(chart, node) {
    return this.subject.describe(chart.tree, node, chart.zoomed);
  }

  // functionItems returns the entries of a menu for a function.
  functionItems(fn) {
    const label = this.profile.label(fn);
    const name = this.profile.name(fn);
    const { focus, hide } = this.state;
    return [
      ['Callers and callees', () => this.apply({ mode: 'sandwich', function: label, callers: '', callees: '' }, true)],
      ['Focus: only stacks through it', () => this.apply({ focus: [...new Set([...focus, label])], zoom: '' }, true)],
      ['Hide: leave its frames out', () => this.apply({ hide: [...new Set([...hide, label])] }, true)],
      ['Search for it', () => this.apply({ search: name })],
      ...(this.lines.canShow(fn) ? [['Lines by heat', () => this.lines.show(fn)]] : []),
      ['Copy name', () => copy(name)],
    ];
  }

  openMenu(chart, node, x, y) {
    const { tree } = chart;
    const fn = tree.functionOf(node);
    this.tip.hide();
    this.menu.open(
      tree.name(node),
      [
        [
          'Zoom',
          () => {
            this.zoomTo(chart, node);
            if (chart.element === document.activeElement) chart.choose(node);
          },
        ],
        ...(fn >= 0 ? this.functionItems(fn) : []),
        ['Copy stack', () => copy(this.stack(chart, node))],
      ],
      x,
      y,
    );
  }

  // stack returns the path to a node as text, one function per line, outermost first.
  stack(chart, node) {
    const names = chart.tree
      .ancestors(node)
      .filter((i) => chart.tree.frame(i) !== -1)
      .map((i) => chart.tree.name(i));
    return (chart === this.above ? names.reverse() : names).join('\n');
  }

  // openFunction handles a click on a function of the table.
  openFunction(fn, at) {
    if (this.mode !== 'sandwich') this.functionMenu(fn, at);
    else this.apply({ function: this.profile.label(fn), callers: '', callees: '' }, true);
  }

  functionMenu(fn, at, event) {
    this.menuAt(this.profile.name(fn), this.functionItems(fn), at, event);
  }

  rowMenu(node, at, event) {
    const { current } = this;
    const fn = current.functionOf(node);
    this.menuAt(
      current.name(node),
      [
        [
          'Zoom',
          () => {
            this.zoomTo(this.main, node);
            this.refresh();
          },
        ],
        ...(fn >= 0 ? this.functionItems(fn) : []),
        ['Copy stack', () => copy(this.stack(this.main, node))],
      ],
      at,
      event,
    );
  }

  menuAt(title, items, at, event) {
    const box = at.getBoundingClientRect();
    this.menu.open(title, items, event ? event.clientX : box.left + 24, event ? event.clientY : box.bottom);
  }

  // next moves to the next or previous node that matches the search.
  next(step) {
    if (!this.matching) return;
    const tree = this.current;
    const inTree = this.mode === 'tree';
    let from = this.main.chosen < 0 ? this.main.zoomed : this.main.chosen;
    if (inTree) from = this.calls.shown[this.calls.rows.active];
    for (let k = 1; k <= tree.length; k++) {
      const i = (from + ((step * k) % tree.length) + tree.length) % tree.length;
      if (tree.frame(i) < 0 || !this.matching[tree.frame(i)]) continue;
      if (inTree) this.calls.reveal(i);
      else this.goTo(i);
      return;
    }
  }

  // goTo chooses a node of the flame graph, and zooms if the node would not be visible.
  goTo(node) {
    if (this.main.element.hidden) this.apply({ mode: 'both' }, true);
    const box = this.main.box(node);
    if (!box || box.width < 4) this.zoomTo(this.main, box ? node : 0);
    this.main.element.focus();
    this.main.input.choose(node);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open || this.lines.element.open || this.menu.isOpen) return;
    const typing = event.target.closest('input, select, textarea');
    if (event.key === 'Escape') {
      if (this.state.search && (typing || !this.back.length)) this.searchFor('');
      else if (typing) typing.blur();
      else this.goBack();
      return;
    }
    if (typing) {
      if (event.key === 'Enter' && typing === this.search) this.next(1);
      return;
    }
    const acts = {
      '/': () => this.search.select(),
      n: () => this.next(1),
      N: () => this.next(-1),
      i: () => this.turnUp(),
      t: () => this.apply({ mode: this.mode === 'table' ? 'both' : 'table' }),
      d: () => this.turnTheme(),
      '?': () => this.help.showModal(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  // writeSoon writes the state to the URL after a delay, as browsers limit how often a page may do this.
  writeSoon() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.writeState(), 150);
  }

  writeState() {
    this.written = stateText(this.state);
    const { pathname, search, hash } = location;
    if (hash.slice(1) !== this.written)
      history.replaceState(null, '', this.written ? '#' + this.written : pathname + search);
  }
}
