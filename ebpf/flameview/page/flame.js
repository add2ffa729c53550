// Draws a flame graph of the data that api/tree answers, into #flame. It needs nothing else
// of the page: with the data in <script type="application/json" id="flame-data"> instead of
// the attribute data-tree, it works in a file too.
'use strict';

(function () {
  const ROW = 19; // height of a frame, in CSS pixels
  const THIN = 0.4; // narrower frames are not drawn
  const FONT = '12px system-ui, sans-serif';
  const LABELS = {
    kernel: 'kernel', native: 'native', inlined: 'inlined', runtime: 'language runtime', jit: 'JIT code',
    unnamed: 'no name', other: 'process or group', small: 'too small to show',
  };
  const TABLE_ROWS = 100;

  // The colours of a comparison, from much less to much more.
  const SHADES = ['less3', 'less2', 'less1', 'same', 'more1', 'more2', 'more3'];
  const SHADE_TEXTS = {
    less3: 'less than −43 %', less2: 'to −43 %', less1: 'to −20 %', same: 'no certain difference', more1: 'to +25 %',
    more2: 'to +75 %', more3: 'more than +75 %',
  };
  const CERTAIN = 4; // standard deviations from which on a difference is coloured

  // element makes an HTML element with attributes and children.
  function element(name, attributes, ...children) {
    const e = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value !== false) e.setAttribute(key, value === true ? '' : value);
    }
    e.append(...children);
    return e;
  }

  function percent(part, whole) {
    const p = whole ? part / whole * 100 : 0;
    if (p > 0 && p < 0.1) return '<0.1 %';
    return (p < 100 && p > 99.9 ? 99.9 : p).toFixed(1) + ' %';
  }

  const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ',');

  // shorten leaves out the template arguments of a C++ or Rust name, and its parameters:
  // std::map<int, int>::operator[](int const&) becomes std::map<..>::operator[](..).
  function shorten(name) {
    let out = '';
    let called = false; // out ends in an operator's name
    for (let i = 0; i < name.length;) {
      const operator = /^operator\s*(\(\)|[<>=!+\-*\/%^&|~\[\],]+)/.exec(name.slice(i, i + 20));
      if (operator && !/\w$/.test(out)) {
        out += operator[0];
        i += operator[0].length;
        called = true;
        continue;
      }
      const open = name[i];
      if (open === '<' && /\w$/.test(out) || open === '(' && (called || /[\w>\]]$/.test(out))) {
        const end = closing(name, i);
        if (end > i + 1) {
          out += open + '..' + name[end];
          i = end + 1;
          continue;
        }
      }
      out += open;
      called = false;
      i++;
    }
    return out;
  }

  // withoutPath leaves out the path of a package of Go: net/http.(*conn).serve becomes http.(*conn).serve.
  const withoutPath = (name) => name.replace(/^([\w.~-]+\/)+(?=[\w.~-]+\.)/, '');

  // closing returns the place of the bracket that closes the one at start, -1 if there is none.
  function closing(name, start) {
    const open = name[start];
    const close = open === '<' ? '>' : ')';
    let depth = 0;
    for (let i = start; i < name.length; i++) {
      if (name[i] === open) depth++;
      if (name[i] === close && name[i - 1] !== '-' && --depth === 0) return i;
    }
    return -1;
  }

  // Tree is the data with what drawing needs: for each node its parent, the end of its
  // subtree, and where it begins in the width of all.
  class Tree {
    constructor(data) {
      this.data = data;
      const n = data.nodes;
      this.length = n.frame.length;
      this.total = n.total[0];
      this.parent = new Int32Array(this.length).fill(-1);
      this.end = new Int32Array(this.length);
      this.x = new Float64Array(this.length);
      this.rows = 0;
      const way = []; // the node and its ancestors
      const cursor = [];
      for (let i = 0; i < this.length; i++) {
        const depth = n.depth[i];
        while (way.length > depth) this.end[way.pop()] = i;
        if (depth > 0) {
          this.parent[i] = way[depth - 1];
          this.x[i] = cursor[depth - 1];
          cursor[depth - 1] += n.total[i];
        }
        way[depth] = i;
        cursor[depth] = this.x[i];
        this.rows = Math.max(this.rows, depth + 1);
      }
      while (way.length) this.end[way.pop()] = this.length;
    }

    text(i) { return this.data.strings[i]; }
    depth(node) { return this.data.nodes.depth[node]; }
    self(node) { return this.data.nodes.self[node]; }
    totalOf(node) { return this.data.nodes.total[node]; }
    frame(node) { return this.data.nodes.frame[node]; }

    name(node) {
      const frame = this.frame(node);
      if (frame === -1) return 'all';
      return frame < 0 ? '(' + count(-1 - frame) + ' small)' : this.text(this.data.frames.name[frame]);
    }

    kind(node) {
      const frame = this.frame(node);
      if (frame < 0) return frame === -1 ? 'other' : 'small';
      return this.data.kinds.name[this.data.frames.kind[frame]];
    }

    inlined(node) {
      const frame = this.frame(node);
      return frame >= 0 && this.data.frames.inlined[frame] === 1;
    }

    // binary is the file of a frame's code, "" if there is none.
    binary(frame) {
      const mapping = frame < 0 ? -1 : this.data.frames.mapping[frame];
      return mapping < 0 ? '' : this.text(this.data.mappings.file[mapping]);
    }

    build(frame) {
      const mapping = frame < 0 ? -1 : this.data.frames.mapping[frame];
      return mapping < 0 ? '' : this.text(this.data.mappings.build[mapping]);
    }

    // place is file and line of a node, or the line where its function begins.
    place(node) {
      const frame = this.frame(node);
      if (frame < 0) return '';
      const file = this.text(this.data.frames.file[frame]);
      const line = this.data.nodes.line[node] || this.data.frames.start[frame];
      return file && line ? file + ':' + line : file;
    }

    // value says how much n is, in the profile's unit.
    value(n) {
      const v = n * this.data.scale;
      if (v === 0) return '0';
      switch (this.data.unit) {
        case 'nanoseconds':
          if (v >= 1e9) return (v / 1e9).toFixed(2) + ' s';
          return v >= 1e6 ? (v / 1e6).toFixed(0) + ' ms' : (v / 1e3).toFixed(0) + ' µs';
        case 'bytes':
          if (v >= 1 << 20) return (v / (1 << 20)).toFixed(1) + ' MiB';
          return v >= 1024 ? (v / 1024).toFixed(1) + ' KiB' : v + ' bytes';
        default:
          return count(v);
      }
    }

    ancestors(node) {
      const out = [];
      for (let i = node; i >= 0; i = this.parent[i]) out.unshift(i);
      return out;
    }

    // child returns the first one of a node, -1 if it has none.
    child(node) { return this.end[node] > node + 1 ? node + 1 : -1; }

    // beside returns the nearest node of the same depth to the right (1) or left (-1).
    beside(node, step) {
      const depth = this.depth(node);
      for (let i = step > 0 ? this.end[node] : node - 1; i > 0 && i < this.length; i += step) {
        if (this.depth(i) === depth) return i;
      }
      return -1;
    }
  }

  class View {
    constructor(root, data) {
      this.tree = new Tree(data);
      this.root = root;
      this.zoomed = 0;
      this.back = []; // nodes zoomed before
      this.hover = -1;
      this.chosen = -1; // by keyboard
      this.kindOnly = '';
      this.matching = null; // by frame, while something is searched for
      this.texts = new Map(); // by name: its shorter forms and their widths
      this.sort = 'self';
      this.build();
      this.readColors();
      this.listen();
      this.layOut();
    }

    build() {
      this.search = element('input', {
        type: 'search', id: 'search', placeholder: 'Search', autocomplete: 'off', spellcheck: 'false',
        'aria-keyshortcuts': '/',
      });
      this.found = element('output', { id: 'found', for: 'search' });
      this.reset = element('button', { type: 'button', id: 'reset', hidden: true }, 'Show all');
      this.legend = element('ul', { class: 'legend', 'aria-label': 'Kinds of frames, with their share of self time' });
      this.crumbs = element('ol', { class: 'crumbs' });
      this.canvas = element('canvas', { 'aria-hidden': 'true' });
      this.chart = element('div', {
        id: 'chart', tabindex: '0', role: 'application', 'aria-label': 'Flame graph', 'aria-describedby': 'keys',
      }, element('div', { class: 'space' }, this.canvas));
      this.tip = element('div', { id: 'tip', hidden: true });
      this.said = element('p', { class: 'hidden', role: 'status', id: 'said' });
      this.body = element('tbody');
      this.root.replaceChildren(
        element('div', { class: 'tools' },
          element('label', { for: 'search', class: 'hidden' }, 'Search functions, files and binaries'),
          this.search, this.found, this.reset),
        this.legend,
        element('nav', { 'aria-label': 'Zoomed to' }, this.crumbs),
        this.chart, this.tip, this.said,
        element('p', { class: 'note', id: 'keys' }, this.hint()),
        element('section', { 'aria-labelledby': 'top-heading' },
          element('h2', { id: 'top-heading' }, this.heading()),
          element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-labelledby': 'top-heading' },
            element('table', { class: 'top' },
              element('thead', {}, element('tr', {}, ...this.columns())),
              this.body)),
          this.more = element('p', { class: 'note' })));
      this.fillLegend();
      this.fillTable();
    }

    hint() { return 'Click or Enter zooms, Esc goes back, arrows move, / searches.'; }

    heading() { return 'Functions'; }

    // columns are the heads of the table of functions.
    columns() {
      return [
        element('th', { scope: 'col' }, 'Function'), this.sorter('self', 'Self'), this.sorter('total', 'Total'),
        element('th', { scope: 'col', class: 'kind' }, 'Kind'), element('th', { scope: 'col', class: 'binary' }, 'Binary'),
      ];
    }

    sorter(column, label) {
      const button = element('button', { type: 'button' }, label);
      const cell = element('th', { scope: 'col', class: 'n', 'data-column': column }, button);
      button.addEventListener('click', () => { this.sort = column; this.fillTable(); });
      return cell;
    }

    fillLegend() {
      const { name, self, total } = this.tree.data.kinds;
      for (let i = 0; i < name.length; i++) {
        if (!total[i] || name[i] === 'other') continue;
        const button = element('button', {
          type: 'button', 'data-kind': name[i], 'aria-pressed': 'false',
          title: percent(self[i], this.tree.total) + ' end in such a frame, ' + percent(total[i], this.tree.total) +
            ' have one',
        }, element('span', { class: 'swatch', 'data-kind': name[i] }), LABELS[name[i]] + ' ',
          element('span', { class: 'share' }, percent(self[i], this.tree.total)));
        button.addEventListener('click', () => {
          this.kindOnly = this.kindOnly === name[i] ? '' : name[i];
          for (const b of this.legend.querySelectorAll('button')) {
            b.setAttribute('aria-pressed', String(b.dataset.kind === this.kindOnly));
          }
          this.draw();
        });
        this.legend.append(element('li', {}, button));
      }
    }

    // rank is what the table is sorted by, the largest first.
    rank(frame) { return this.tree.data.frames[this.sort][frame]; }

    // fillTable lists the functions with most self or total, of those searched for.
    fillTable() {
      const { frames } = this.tree.data;
      const order = Array.from(frames.name.keys()).filter((i) => !this.matching || this.matching[i]);
      order.sort((a, b) => this.rank(b) - this.rank(a));
      this.body.replaceChildren(...order.slice(0, TABLE_ROWS).map((i) => this.row(i)));
      this.more.textContent = order.length > TABLE_ROWS ?
        'The first ' + TABLE_ROWS + ' of ' + count(order.length) + ' functions.' : '';
      for (const cell of this.root.querySelectorAll('th[data-column]')) {
        if (cell.dataset.column === this.sort) cell.setAttribute('aria-sort', 'descending');
        else cell.removeAttribute('aria-sort');
      }
    }

    // row is a function's line in the table.
    row(i) {
      const { frames, kinds } = this.tree.data;
      const kind = kinds.name[frames.kind[i]];
      const total = this.tree.total;
      return element('tr', { 'data-kind': kind },
        element('th', { scope: 'row' }, element('span', { class: 'swatch', 'data-kind': kind }), this.link(i)),
        element('td', { class: 'n', title: this.tree.value(frames.self[i]) }, percent(frames.self[i], total)),
        element('td', { class: 'n', title: this.tree.value(frames.total[i]) }, percent(frames.total[i], total)),
        element('td', { class: 'kind' }, this.kindText(kind, i)),
        this.binaryCell(i));
    }

    // link is a function's name, which searches for it.
    link(i) {
      const name = this.tree.text(this.tree.data.frames.name[i]);
      const link = element('button', { type: 'button', class: 'function', title: 'Search for ' + name }, name);
      link.addEventListener('click', () => this.searchFor(name));
      return link;
    }

    binaryCell(i) {
      const binary = this.tree.binary(i);
      return element('td', { class: 'binary', title: binary }, base(binary));
    }

    // readColors takes the colours from the style sheet, which has two sets.
    readColors() {
      const style = getComputedStyle(document.documentElement);
      this.colors = {};
      for (const name of [...Object.keys(LABELS), ...SHADES, 'frame-text', 'text', 'hatch', 'pale']) {
        this.colors[name] = style.getPropertyValue('--' + name).trim();
      }
      const tile = element('canvas', { width: 8, height: 8 });
      const pen = tile.getContext('2d');
      pen.fillStyle = this.colors.unnamed;
      pen.fillRect(0, 0, 8, 8);
      pen.strokeStyle = this.colors.hatch;
      pen.lineWidth = 1.5;
      for (const at of [-8, 0, 8]) {
        pen.moveTo(at, 8);
        pen.lineTo(at + 8, 0);
      }
      pen.stroke();
      this.hatched = this.canvas.getContext('2d').createPattern(tile, 'repeat');
    }

    listen() {
      const again = () => { this.readColors(); this.draw(); };
      matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
      new ResizeObserver(() => this.draw()).observe(this.chart);
      this.chart.addEventListener('scroll', () => this.draw());
      this.chart.addEventListener('pointermove', (event) => this.point(this.nodeAt(event), event));
      this.chart.addEventListener('pointerleave', () => this.point(-1));
      this.chart.addEventListener('click', (event) => {
        const node = this.nodeAt(event);
        if (node >= 0) this.zoom(node);
      });
      this.chart.addEventListener('keydown', (event) => this.key(event));
      this.chart.addEventListener('blur', () => { this.chosen = -1; this.showTip(-1); this.draw(); });
      this.reset.addEventListener('click', () => this.zoom(0));
      this.search.addEventListener('input', () => this.find());
      document.addEventListener('keydown', (event) => {
        const typing = event.target.closest('input, select, textarea');
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key === '/' && !typing) {
          event.preventDefault();
          this.search.focus();
          this.search.select();
        } else if (event.key === 'Escape') {
          if (this.search.value && (typing || !this.back.length)) this.searchFor('');
          else if (typing) this.chart.focus();
          else this.goBack();
        }
      });
    }

    // layOut gives the chart its height.
    layOut() {
      this.chart.firstChild.style.height = this.tree.rows * ROW + 'px';
      this.showCrumbs();
      this.draw();
    }

    // scale returns how many pixels a unit of the zoomed range has.
    scale() { return this.chart.clientWidth / this.tree.totalOf(this.zoomed); }

    // box returns where a node is drawn, in pixels of the chart's content; null if it is not.
    box(node) {
      const tree = this.tree;
      const first = tree.x[this.zoomed];
      if (node <= this.zoomed && tree.end[node] >= tree.end[this.zoomed]) { // it, or an ancestor
        return { x: 0, y: tree.depth(node) * ROW, width: this.chart.clientWidth, height: ROW };
      }
      if (node < this.zoomed || node >= tree.end[this.zoomed]) return null;
      const scale = this.scale();
      return {
        x: (tree.x[node] - first) * scale, y: tree.depth(node) * ROW, width: tree.totalOf(node) * scale, height: ROW,
      };
    }

    nodeAt(event) {
      const chart = this.chart.getBoundingClientRect();
      const depth = Math.floor((event.clientY - chart.top - this.chart.clientTop + this.chart.scrollTop) / ROW);
      const tree = this.tree;
      const way = tree.ancestors(this.zoomed);
      if (depth < way.length) return depth < 0 ? -1 : way[depth];
      const at = tree.x[this.zoomed] + (event.clientX - chart.left - this.chart.clientLeft) / this.scale();
      for (let i = this.zoomed; i < tree.end[this.zoomed];) {
        if (at < tree.x[i] || at >= tree.x[i] + tree.totalOf(i)) i = tree.end[i];
        else if (tree.depth(i) === depth) return i;
        else i++;
      }
      return -1;
    }

    draw() {
      if (this.drawing) return;
      this.drawing = true;
      requestAnimationFrame(() => { this.drawing = false; this.paint(); });
    }

    paint() {
      const width = this.chart.clientWidth;
      const height = this.chart.clientHeight;
      const ratio = window.devicePixelRatio || 1;
      const canvas = this.canvas;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.width = width + 'px';
        canvas.style.height = height + 'px';
      }
      const pen = canvas.getContext('2d');
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, width, height);
      pen.font = FONT;
      pen.textBaseline = 'middle';
      const { tree, zoomed } = this;
      const top = this.chart.scrollTop;
      for (const node of tree.ancestors(zoomed)) {
        this.paintNode(pen, node, 0, tree.depth(node) * ROW - top, width, node !== zoomed);
      }
      const scale = this.scale();
      const first = tree.x[zoomed];
      for (let i = zoomed + 1; i < tree.end[zoomed];) {
        const w = tree.totalOf(i) * scale;
        const y = tree.depth(i) * ROW - top;
        if (w < THIN || y > height) {
          i = tree.end[i];
          continue;
        }
        if (y > -ROW) this.paintNode(pen, i, (tree.x[i] - first) * scale, y, w, false);
        i++;
      }
      this.outline(pen, this.hover, top);
      this.outline(pen, this.chosen, top);
    }

    // paintNode draws a frame. An ancestor of the zoomed one is paler.
    paintNode(pen, node, x, y, width, ancestor) {
      const kind = this.tree.kind(node);
      const shown = this.highlighted(node, kind);
      pen.globalAlpha = shown ? (ancestor ? 0.6 : 1) : 0.22;
      pen.fillStyle = this.fill(node, kind);
      const drawn = width > 2 ? width - 1 : Math.max(width, 0.7);
      pen.fillRect(x, y, drawn, ROW - 1);
      if (kind !== 'inlined' && this.tree.inlined(node)) { // of a language or its compiler: paler
        pen.fillStyle = this.colors.pale;
        pen.fillRect(x, y, drawn, ROW - 1);
      }
      if (width > 26) {
        pen.globalAlpha = shown ? 1 : 0.7;
        pen.fillStyle = this.colors['frame-text'];
        pen.fillText(this.fit(pen, this.tree.name(node), width - 9), x + 4, y + ROW / 2);
      }
      pen.globalAlpha = 1;
    }

    fill(node, kind) { return kind === 'unnamed' ? this.hatched : this.colors[kind]; }

    highlighted(node, kind) {
      if (this.kindOnly && kind !== this.kindOnly) return false;
      const frame = this.tree.frame(node);
      return !this.matching || frame >= 0 && this.matching[frame];
    }

    outline(pen, node, top) {
      const box = node < 0 ? null : this.box(node);
      if (!box) return;
      pen.strokeStyle = this.colors.text;
      pen.lineWidth = 2;
      pen.strokeRect(box.x + 1, box.y - top + 1, Math.max(box.width - 3, 1), ROW - 3);
    }

    shorten(name) { return shorten(name); }

    // fit returns the longest form of a name that fits.
    fit(pen, name, width) {
      let forms = this.texts.get(name);
      if (!forms) {
        const short = shorten(name);
        forms = Array.from(new Set([name, short, withoutPath(short)]),
          (text) => ({ text, width: pen.measureText(text).width }));
        this.texts.set(name, forms);
      }
      for (const form of forms) if (form.width <= width) return form.text;
      const { text, width: whole } = forms[forms.length - 1];
      let n = Math.floor(text.length * width / whole);
      while (n > 0 && pen.measureText(text.slice(0, n) + '…').width > width) n--;
      return n > 1 ? text.slice(0, n) + '…' : '';
    }

    zoom(node) {
      if (node !== this.zoomed) {
        if (node === 0) this.back = [];
        else this.back.push(this.zoomed);
      }
      this.show(node);
    }

    goBack() {
      if (this.back.length) this.show(this.back.pop());
    }

    show(node) {
      this.zoomed = node;
      this.hover = -1;
      this.showTip(-1);
      this.reset.hidden = node === 0;
      const depth = this.tree.depth(node);
      const top = this.chart.scrollTop;
      if (depth * ROW < top || depth * ROW > top + this.chart.clientHeight / 2) {
        this.chart.scrollTop = Math.max(0, (depth - 2) * ROW);
      }
      this.showCrumbs();
      this.draw();
    }

    showCrumbs() {
      const way = this.tree.ancestors(this.zoomed);
      const shown = way.length > 6 ? [way[0], -1, ...way.slice(-4)] : way;
      this.crumbs.replaceChildren(...shown.map((node) => {
        if (node < 0) return element('li', {}, '…');
        const name = this.tree.name(node);
        const button = element('button', { type: 'button', title: name }, shorten(name));
        if (node === this.zoomed) button.setAttribute('aria-current', 'true');
        button.addEventListener('click', () => this.zoom(node));
        return element('li', {}, button);
      }));
      this.crumbs.parentNode.hidden = this.zoomed === 0;
    }

    searchFor(text) {
      this.search.value = text;
      this.find();
    }

    // find marks the frames whose function, file or binary has the text, or matches it as a
    // regular expression.
    find() {
      const text = this.search.value.trim();
      this.matching = text ? this.matches(text) : null;
      this.found.textContent = '';
      if (text) {
        const { nodes, value } = this.sumOfMatches();
        const share = percent(value, this.tree.total);
        this.found.textContent = count(nodes) + (nodes === 1 ? ' frame, ' : ' frames, ') + share;
      }
      this.fillTable();
      this.draw();
    }

    matches(text) {
      const { frames, strings } = this.tree.data;
      const lower = text.toLowerCase();
      let pattern = null;
      try {
        pattern = new RegExp(text, 'i');
      } catch (error) {
        // It is searched for as it is.
      }
      const has = strings.map((s) => s.toLowerCase().includes(lower) || pattern !== null && pattern.test(s));
      const empty = strings.indexOf('');
      if (empty >= 0) has[empty] = false;
      const { file } = this.tree.data.mappings;
      return Uint8Array.from(frames.name, (name, i) => Number(
        has[name] || has[frames.file[i]] || frames.mapping[i] >= 0 && has[file[frames.mapping[i]]]));
    }

    // sumOfMatches counts the matching nodes, and adds up the outermost ones.
    sumOfMatches() {
      const { tree } = this;
      let nodes = 0;
      let value = 0;
      let inside = 0; // end of the outermost one
      for (let i = 0; i < tree.length; i++) {
        const frame = tree.frame(i);
        if (frame < 0 || !this.matching[frame]) continue;
        nodes++;
        if (i < inside) continue;
        value += tree.totalOf(i);
        inside = tree.end[i];
      }
      return { nodes, value };
    }

    point(node, event) {
      if (node !== this.hover) {
        this.hover = node;
        this.chart.style.cursor = node < 0 ? '' : 'pointer';
        this.draw();
      }
      this.showTip(node, event);
    }

    // showTip says all about a node, beside the pointer, or else below the node.
    showTip(node, event) {
      this.tip.hidden = node < 0;
      if (node < 0) return;
      if (this.tipped !== node) {
        this.tipped = node;
        this.tip.replaceChildren(...this.describe(node).map(([key, value]) =>
          key ? element('div', {}, element('span', { class: 'key' }, key), ' ', value) : element('strong', {}, value)));
      }
      let { clientX: x, clientY: y } = event || {};
      if (!event) {
        const chart = this.chart.getBoundingClientRect();
        const box = this.box(node) || { x: 0, y: 0 };
        x = chart.left + box.x;
        y = chart.top + box.y - this.chart.scrollTop + ROW;
      }
      const { offsetWidth, offsetHeight } = this.tip;
      const page = document.documentElement;
      this.tip.style.left = Math.max(4, Math.min(x + 14, page.clientWidth - offsetWidth - 6)) + 'px';
      const below = y + 18 + offsetHeight <= page.clientHeight;
      this.tip.style.top = (below ? y + 18 : Math.max(4, y - offsetHeight - 12)) + 'px';
    }

    kindText(kind, frame) {
      const inlined = kind !== 'inlined' && frame >= 0 && this.tree.data.frames.inlined[frame] === 1;
      return LABELS[kind] + (inlined ? ', inlined' : '');
    }

    // describe returns what is known of a node, as pairs; the name has no key.
    describe(node) {
      const { tree } = this;
      const frame = tree.frame(node);
      const parent = tree.parent[node];
      const kind = tree.kind(node);
      const out = [['', tree.name(node)]];
      const add = (key, value) => { if (value) out.push([key, value]); };
      add('at', tree.place(node));
      add('binary', tree.binary(frame));
      add('build ID', tree.build(frame));
      add('total', tree.value(tree.totalOf(node)) + ', ' + percent(tree.totalOf(node), tree.total) + ' of all' +
        (parent > 0 ? ', ' + percent(tree.totalOf(node), tree.totalOf(parent)) + ' of its caller' : ''));
      if (kind !== 'small') add('self', tree.value(tree.self(node)) + ', ' + percent(tree.self(node), tree.total));
      if (node > 0) add('kind', this.kindText(kind, frame));
      return out;
    }

    key(event) {
      const { tree } = this;
      let to = -1;
      const from = this.chosen < 0 ? this.zoomed : this.chosen;
      switch (event.key) {
        case 'ArrowDown': to = this.chosen < 0 ? from : tree.child(from); break;
        case 'ArrowUp': to = tree.parent[from]; break;
        case 'ArrowLeft': to = tree.beside(from, -1); break;
        case 'ArrowRight': to = tree.beside(from, 1); break;
        case 'Home': to = this.zoomed; break;
        case 'Enter':
        case ' ':
          event.preventDefault();
          this.zoom(from);
          this.choose(from);
          return;
        default: return;
      }
      event.preventDefault();
      if (to >= 0 && this.box(to)) this.choose(to);
    }

    // choose moves the keyboard's frame, and says it to screen readers.
    choose(node) {
      this.chosen = node;
      const y = this.tree.depth(node) * ROW;
      if (y < this.chart.scrollTop) this.chart.scrollTop = y;
      const hidden = y + ROW - this.chart.scrollTop - this.chart.clientHeight;
      if (hidden > 0) this.chart.scrollTop += hidden;
      this.said.textContent = this.describe(node).map((pair) => pair.join(' ').trim()).join('; ');
      this.showTip(node);
      this.draw();
    }
  }

  // DiffView compares two profiles: a frame is as wide as both together, and its colour says how they differ.
  class DiffView extends View {
    // was and is are what a node, or a frame, has of the base and of the new profile.
    was(node) { return this.tree.data.nodes.base_total[node]; }
    is(node) { return this.tree.totalOf(node) - this.was(node); }

    // amount says how much a value is, for each second or what it is for.
    amount(value) {
      const { diff, unit, scale } = this.tree.data;
      const per = value * scale / diff.by;
      if (diff.per === 'cpu') return percent(unit === 'nanoseconds' ? per / 1e9 : per, 1);
      if (unit !== 'nanoseconds') return per.toPrecision(4) + (diff.per === 'second' ? '/s' : '');
      const ms = per / 1e6;
      return (ms >= 100 ? ms.toFixed(0) : ms.toPrecision(3)) + (diff.per === 'second' ? ' ms/s' : ' ms');
    }

    // shade is the colour of a difference, 'same' where chance explains it.
    shade(was, is) {
      const { diff } = this.tree.data;
      const variance = was * diff.base_sample + was * was * diff.base_spread + is * diff.new_sample +
        is * is * diff.new_spread;
      if (Math.abs(is - was) < CERTAIN * Math.sqrt(variance)) return 'same';
      const step = Math.abs(Math.log2(is / was));
      return (is > was ? 'more' : 'less') + (step < Math.log2(1.25) ? 1 : step < Math.log2(1.75) ? 2 : 3);
    }

    shadeOf(node) { return this.shade(this.was(node), this.is(node)); }

    fill(node, kind) { return this.colors[kind === 'small' ? 'small' : this.shadeOf(node)]; }

    highlighted(node) {
      if (this.kindOnly && this.shadeOf(node) !== this.kindOnly) return false;
      const frame = this.tree.frame(node);
      return !this.matching || frame >= 0 && this.matching[frame];
    }

    fillLegend() {
      this.legend.setAttribute('aria-label', 'How frames differ');
      for (const shade of SHADES) {
        const button = element('button', { type: 'button', 'data-shade': shade, 'aria-pressed': 'false' },
          element('span', { class: 'swatch', 'data-shade': shade }), SHADE_TEXTS[shade]);
        button.addEventListener('click', () => {
          this.kindOnly = this.kindOnly === shade ? '' : shade;
          for (const b of this.legend.querySelectorAll('button')) {
            b.setAttribute('aria-pressed', String(b.dataset.shade === this.kindOnly));
          }
          this.draw();
        });
        this.legend.append(element('li', {}, button));
      }
    }

    hint() { return 'A frame is as wide as before and after together. ' + super.hint(); }

    heading() { return 'Functions, themselves alone'; }

    columns() {
      this.sort = 'change';
      return [
        element('th', { scope: 'col' }, 'Function'), this.sorter('before', 'Before'), this.sorter('after', 'After'),
        this.sorter('change', 'Change'), element('th', { scope: 'col', class: 'n' }, 'Between'),
        element('th', { scope: 'col', class: 'binary' }, 'Binary'),
      ];
    }

    rank(frame) {
      const { self, base_self: was } = this.tree.data.frames;
      switch (this.sort) {
        case 'before': return was[frame];
        case 'after': return self[frame] - was[frame];
        default: { // what is certain comes first
          const bound = this.bound(frame);
          return Math.abs(self[frame] - 2 * was[frame]) + (bound && bound.certain ? 2 * this.tree.total : 0);
        }
      }
    }

    // bound is what is known of a function for certain, null if nothing is.
    bound(frame) {
      const { functions, changes } = this.tree.data.diff;
      return frame < 0 || functions[frame] < 0 ? null : changes[functions[frame]];
    }

    row(i) {
      const { self, base_self: base } = this.tree.data.frames;
      const was = base[i];
      const is = self[i] - was;
      const bound = this.bound(i);
      const shade = bound && !bound.certain ? 'same' : this.shade(was, is);
      return element('tr', { 'data-shade': shade, 'data-certain': String(bound !== null && bound.certain) },
        element('th', { scope: 'row' }, element('span', { class: 'swatch', 'data-shade': shade }), this.link(i)),
        element('td', { class: 'n' }, this.amount(was)), element('td', { class: 'n' }, this.amount(is)),
        element('td', { class: 'n' }, change(was, is)), element('td', { class: 'n' }, bound ? between(bound) : ''),
        this.binaryCell(i));
    }

    describe(node) {
      const { tree } = this;
      const frame = tree.frame(node);
      const both = (was, is) => this.amount(was) + ' before, ' + this.amount(is) + ' after: ' + change(was, is);
      const out = [['', tree.name(node)]];
      if (tree.binary(frame)) out.push(['binary', tree.binary(frame)]);
      out.push(['with what it calls', both(this.was(node), this.is(node))]);
      if (this.shadeOf(node) === 'same') out.push(['', 'no more than chance explains']);
      const own = tree.data.nodes.base_self[node];
      if (frame >= 0) out.push(['itself', both(own, tree.self(node) - own)]);
      const bound = this.bound(frame);
      if (bound) {
        out.push(['the function itself, wherever it is called', between(bound) + (bound.certain ? '' : ': not certain')]);
      }
      return out;
    }
  }

  // change says how much more is is than was.
  function change(was, is) {
    if (was === 0) return is === 0 ? '0 %' : 'new';
    return is === 0 ? 'gone' : more(is / was);
  }

  function more(ratio) {
    const p = Math.round(100 * (ratio - 1));
    return (p < 0 ? '−' : '+') + count(Math.abs(p)) + ' %';
  }

  function between(bound) {
    if (bound.high === undefined || bound.high > 100) {
      return bound.low < 0.01 ? 'not known' : 'at least ' + more(bound.low);
    }
    return more(bound.low) + ' and ' + more(bound.high);
  }

  const base = (path) => path.slice(path.lastIndexOf('/') + 1) || path;

  // start shows the data, which lies in the page or is asked for.
  async function start(root) {
    let data;
    const inPage = document.getElementById('flame-data');
    try {
      if (inPage) {
        data = JSON.parse(inPage.textContent);
      } else {
        const answer = await fetch(root.dataset.tree);
        data = await answer.json();
        if (!answer.ok) throw new Error(data.error);
      }
    } catch (error) {
      const message = 'The flame graph cannot be shown: ' + error.message;
      root.replaceChildren(element('p', { class: 'status', role: 'alert' }, message));
      return;
    }
    root.view = data.diff ? new DiffView(root, data) : new View(root, data);
  }

  start(document.getElementById('flame'));
})();
