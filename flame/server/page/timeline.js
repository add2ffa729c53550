// Draws the CPU time of each interval, or what else is counted, into #timeline, from what api/series answers. A range that is dragged is shown;
// one that is dragged with Shift is the baseline of a comparison. Begin and end are sliders for the keyboard.
'use strict';

(function () {
  const WIDTH = 1000; // of the drawing; the page scales it
  const HEIGHT = 64;
  const SVG = 'http://www.w3.org/2000/svg';

  function element(name, attributes, ...children) {
    const e = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    e.append(...children);
    return e;
  }

  function shape(name, attributes) {
    const e = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    return e;
  }

  // clock writes a time of day, with the date if that is not today's.
  function clock(ms) {
    const at = new Date(ms);
    const time = at.toLocaleTimeString([], { hour12: false });
    return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
  }

  // rate says how much of a unit there is in a span of ms: CPUs of CPU time, threads of other times, bytes a second.
  function rate(value, span, unit, kind) {
    const each = span > 0 ? value / span : 0;
    if (unit === 'ms') return each.toFixed(2) + (kind === 'cpu' ? ' CPUs' : ' threads');
    if (unit === 'bytes') return (each * 1000 / 1048576).toFixed(2) + ' MiB/s';
    return (each * 1000).toFixed(1) + '/s';
  }

  class Timeline {
    constructor(root) {
      this.root = root;
      this.query = new URLSearchParams(location.search);
      this.kind = this.query.get('kind') || 'cpu';
      this.what = this.kind === 'cpu' ? 'CPU time' : this.kind;
      this.shown = this.rangeOf('from', 'to');
      this.base = this.query.has('base_from') ? this.rangeOf('base_from', 'base_to') : null;
      this.chosen = { ...this.shown };
      this.isLive = this.query.get('live') === '1';
      this.make();
    }

    rangeOf(from, to) { return { from: Number(this.query.get(from)), to: Number(this.query.get(to)) }; }

    make() {
      this.svg = shape('svg', {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': this.what + ' by process',
      });
      this.handles = {
        from: this.handle('from', 'Start of the range'), to: this.handle('to', 'End of the range'),
      };
      this.plot = element('div', { class: 'plot' }, this.svg, this.handles.from, this.handles.to);
      this.legend = element('ul', { class: 'series', 'aria-label': 'Colours of processes' });
      this.said = element('p', { class: 'said', role: 'status' });
      this.live = element('button', { type: 'button', id: 'live', 'aria-pressed': String(this.isLive) },
        this.isLive ? 'Pause' : 'Live');
      this.live.addEventListener('click', () => this.toggleLive());
      const help = element('p', { class: 'help', id: 'timeline-help' },
        'Drag to show a range, Shift-drag to compare with a range. Keys: arrows move start and end, Enter shows, Shift+Enter compares.');
      this.root.replaceChildren(this.plot, element('div', { class: 'line' }, this.live, this.said), this.legend, help);
      this.plot.addEventListener('pointerdown', (event) => this.press(event));
      this.plot.addEventListener('pointermove', (event) => this.move(event));
      this.plot.addEventListener('pointerup', (event) => this.release(event));
      this.plot.addEventListener('pointercancel', () => { this.drag = null; this.mark(); });
    }

    handle(side, label) {
      const e = element('div', {
        class: 'handle', role: 'slider', tabindex: '0', 'aria-label': label, 'aria-describedby': 'timeline-help',
        'data-side': side,
      });
      e.addEventListener('keydown', (event) => this.key(event, side));
      return e;
    }

    async load() {
      const answer = await fetch(this.root.dataset.series, { cache: 'no-store' });
      const data = await answer.json();
      if (!answer.ok) throw new Error(data.error);
      this.data = data;
      this.count = data.from.length;
      if (this.count === 0) return;
      this.begin = data.from[0];
      this.end = data.to[this.count - 1];
      this.draw();
    }

    rate(value, span) { return rate(value, span, this.data.unit, this.kind); }

    x(ms) { return (ms - this.begin) / Math.max(1, this.end - this.begin) * WIDTH; }

    draw() {
      const { from, to, all, values, rest } = this.data;
      const rate = all.map((cpu, i) => cpu / Math.max(1, to[i] - from[i]));
      const most = Math.max(...rate, 1e-9);
      this.svg.replaceChildren();
      for (let i = 0; i < this.count; i++) {
        let y = HEIGHT;
        [...values, rest].forEach((column, series) => {
          const height = column[i] / Math.max(1, to[i] - from[i]) / most * HEIGHT;
          y -= height;
          if (height > 0) this.svg.append(this.bar(i, y, height, series < values.length ? 'group' + series : 'rest'));
        });
      }
      this.marks = { base: shape('rect', { class: 'mark base' }), chosen: shape('rect', { class: 'mark chosen' }) };
      this.svg.append(this.marks.base, this.marks.chosen);
      this.name();
      this.mark();
    }

    bar(i, y, height, kind) {
      const { from, to } = this.data;
      const x = this.x(from[i]);
      return shape('rect', { x, y, width: Math.max(0.5, this.x(to[i]) - x - 1), height, class: kind });
    }

    name() {
      const { names, others, all } = this.data;
      const items = names.map((name, i) => [name, 'group' + i]);
      if (others > 0) items.push([others + ' more', 'rest']);
      this.legend.replaceChildren(...items.map(([name, kind]) =>
        element('li', {}, element('span', { class: 'swatch ' + kind }), name)));
      const sum = all.reduce((a, b) => a + b, 0);
      this.svg.setAttribute('aria-label', `${this.what} from ${clock(this.begin)} to ${clock(this.end)}: ` +
        `${this.rate(sum, this.end - this.begin)} on average, most of it ${names.join(', ')}`);
    }

    // mark shows which ranges are chosen, as far as profiles are kept.
    mark() {
      if (!this.count) return;
      this.place(this.marks.chosen, this.drag && !this.drag.base ? this.drag.range : this.chosen);
      this.place(this.marks.base, this.drag && this.drag.base ? this.drag.range : this.base);
      for (const side of ['from', 'to']) {
        const at = Math.min(Math.max(this.chosen[side], this.begin), this.end);
        const e = this.handles[side];
        e.dataset.at = String(at);
        e.style.left = this.x(at) / WIDTH * 100 + '%';
        e.setAttribute('aria-valuemin', String(this.begin));
        e.setAttribute('aria-valuemax', String(this.end));
        e.setAttribute('aria-valuenow', String(at));
        e.setAttribute('aria-valuetext', clock(at));
      }
      this.said.textContent = this.describe();
    }

    place(e, range) {
      const x = range ? Math.max(0, this.x(range.from)) : 0;
      e.setAttribute('x', x);
      e.setAttribute('width', range ? Math.max(0, Math.min(WIDTH, this.x(range.to)) - x) : 0);
      e.setAttribute('y', 0);
      e.setAttribute('height', HEIGHT);
    }

    describe() {
      const range = this.drag ? this.drag.range : this.chosen;
      let cpu = 0;
      let span = 0;
      for (let i = 0; i < this.count; i++) {
        if (this.data.to[i] <= range.from || this.data.to[i] > range.to) continue;
        cpu += this.data.all[i];
        span += this.data.to[i] - this.data.from[i];
      }
      const { interval, refresh } = this.data;
      const slow = this.isLive && refresh > 1.5 * interval ? `, next picture in ${Math.round(refresh / 1000)} s` : '';
      return (this.drag && this.drag.base ? 'baseline ' : '') +
        `${clock(range.from)} to ${clock(range.to)}, ${this.rate(cpu, span)}${slow}`;
    }

    // snap widens what is shown to whole intervals: a selection means those that end in it.
    snap() {
      const { from, to } = this.data;
      const first = to.findIndex((at) => at > this.shown.from && at <= this.shown.to);
      if (first < 0) return;
      this.chosen.from = Math.min(this.chosen.from, from[first]);
      this.mark();
    }

    // edge returns the begin or end of an interval that is nearest to a place of the pointer.
    edge(event) {
      const box = this.plot.getBoundingClientRect();
      const ms = this.begin + (event.clientX - box.x) / box.width * (this.end - this.begin);
      const edges = this.edges();
      return edges.reduce((best, at) => Math.abs(at - ms) < Math.abs(best - ms) ? at : best, edges[0]);
    }

    edges() { return [this.data.from[0], ...this.data.to]; }

    press(event) {
      if (!this.count || event.button !== 0) return;
      event.preventDefault();
      this.plot.setPointerCapture(event.pointerId);
      const at = this.edge(event);
      this.drag = { start: at, base: event.shiftKey, range: { from: at, to: at } };
      this.mark();
    }

    move(event) {
      if (!this.drag) return;
      const at = this.edge(event);
      this.drag.range = { from: Math.min(at, this.drag.start), to: Math.max(at, this.drag.start) };
      this.mark();
    }

    release(event) {
      if (!this.drag) return;
      this.move(event);
      const { range, base } = this.drag;
      this.drag = null;
      if (range.from === range.to) {
        this.mark(); // a click chooses nothing
      } else if (base) {
        this.compare(range);
      } else {
        this.show(range);
      }
    }

    key(event, side) {
      if (!this.count || event.altKey || event.ctrlKey || event.metaKey) return;
      const edges = this.edges();
      const here = edges.reduce((best, at, i) =>
        Math.abs(at - this.chosen[side]) < Math.abs(edges[best] - this.chosen[side]) ? i : best, 0);
      const steps = {
        ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -4, PageUp: 4, Home: -Infinity, End: Infinity,
      };
      if (event.key === 'Enter') {
        event.preventDefault();
        if (event.shiftKey) this.compare(this.chosen);
        else this.show(this.chosen);
      } else if (event.key in steps) {
        event.preventDefault();
        const least = side === 'from' ? 0 : edges.findIndex((at) => at > this.chosen.from);
        const most = side === 'to' ? edges.length - 1 : edges.findLastIndex((at) => at < this.chosen.to);
        this.chosen[side] = edges[Math.max(Math.min(least, most), Math.min(most, Math.max(least, here + steps[event.key])))];
        this.mark();
      }
    }

    // open leads to a page of ranges; the view's state in the address stays.
    open(page, ranges, replace) {
      const query = new URLSearchParams(this.query);
      for (const key of ['from', 'to', 'base_from', 'base_to', 'range', 'live']) query.delete(key);
      for (const [key, value] of Object.entries(ranges)) query.set(key, String(value));
      const to = page + '?' + query + location.hash;
      if (replace) location.replace(to);
      else location.assign(to);
    }

    show(range) {
      if (this.base) this.open('./diff', { ...range, base_from: this.base.from, base_to: this.base.to });
      else this.open('./flame', range);
    }

    compare(base) { this.open('./diff', { ...this.shown, base_from: base.from, base_to: base.to }); }

    toggleLive() {
      this.isLive = !this.isLive;
      this.live.setAttribute('aria-pressed', String(this.isLive));
      this.live.textContent = this.isLive ? 'Pause' : 'Live';
      this.query[this.isLive ? 'set' : 'delete']('live', '1');
      history.replaceState(null, '', '?' + this.query + location.hash);
      if (this.isLive) this.follow();
    }

    // follow shows a range of the same length up to the newest profile.
    async follow() {
      if (!this.isLive || this.drag || document.visibilityState !== 'visible') return;
      try {
        await this.load();
      } catch (error) {
        this.said.textContent = 'The timeline cannot be read: ' + error.message;
        return; // the profiler may come back
      }
      const length = this.shown.to - this.shown.from;
      if (this.isLive && this.count && this.end > this.shown.to) {
        this.open('./flame', { from: this.end - length, to: this.end, live: 1 }, true);
      }
    }

    // waitForNext follows as often as the profiler wants: not with each interval, if that costs it too much.
    waitForNext() {
      setTimeout(async () => {
        await this.follow();
        this.waitForNext();
      }, Math.max(1000, this.data.refresh));
    }

    async start() {
      try {
        await this.load();
      } catch (error) {
        this.said.textContent = 'The timeline cannot be shown: ' + error.message;
        return;
      }
      if (!this.count) this.said.textContent = 'There are no profiles.';
      this.snap();
      this.live.hidden = this.base !== null;
      this.waitForNext();
    }
  }

  // What the view shows stays the same in a newer range.
  for (const link of document.querySelectorAll('.ranges a')) {
    link.addEventListener('click', () => { link.hash = location.hash; });
  }
  const root = document.getElementById('timeline');
  if (root) {
    root.timeline = new Timeline(root);
    root.timeline.start();
  }
})();
