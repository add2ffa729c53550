const ROW = 19; // height of a frame, in CSS pixels
const THIN = 0.4; // narrower frames are not drawn
const FONT = '12px system-ui, sans-serif';

// Chart draws a tree on a canvas, with the root at the top, or at the bottom if up is set. It has the geometry;
// ChartInput handles pointer and keys.
class Chart {
  // owner has the parts that charts share: palette, colouring, pale(frame) and only, the group that is not drawn paler.
  constructor(owner, id, label) {
    this.owner = owner;
    this.canvas = element('canvas', { 'aria-hidden': 'true' });
    this.hoverBox = element('div', { class: 'outline', hidden: true });
    this.chosenBox = element('div', { class: 'outline', hidden: true });
    this.space = element('div', { class: 'space' }, this.canvas, this.hoverBox, this.chosenBox);
    this.element = element(
      'div',
      {
        id,
        class: 'chart',
        tabindex: '0',
        role: 'application',
        'aria-label': label,
        'aria-describedby': 'keys',
      },
      this.space,
    );
    this.texts = new Map(); // by name: shorter forms and their widths
    this.widths = new Map(); // widths by character
    this.up = false;
    this.zoomed = 0;
    this.hover = -1;
    this.chosen = -1; // the node of the keyboard
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.element.addEventListener('scroll', () => this.draw());
  }

  // show draws a tree whose nodes have the given groups. It resets the zoomed and the chosen node.
  show(tree, groups, up) {
    this.tree = tree;
    this.groups = groups;
    this.up = up;
    this.zoomed = 0;
    this.chosen = -1;
    this.space.style.height = tree.rows * ROW + 'px';
    this.element.scrollTop = up ? tree.rows * ROW : 0;
    this.point(-1);
    this.draw();
  }

  // top returns the position of a row of frames, in pixels of the chart's content.
  top(depth) {
    return (this.up ? this.tree.rows - 1 - depth : depth) * ROW;
  }

  // scale returns the number of pixels per unit of value.
  scale() {
    return this.element.clientWidth / (this.tree.totalOf(this.zoomed) || 1);
  }

  // box returns the rectangle of a node, in pixels of the chart's content, or null if it is not drawn.
  box(node) {
    const { tree, zoomed } = this;
    const y = this.top(tree.depth(node));
    if (node <= zoomed && tree.end[node] >= tree.end[zoomed]) {
      // the zoomed node, or an ancestor
      return { x: 0, y, width: this.element.clientWidth, height: ROW };
    }
    if (node < zoomed || node >= tree.end[zoomed]) return null;
    const scale = this.scale();
    return { x: (tree.x[node] - tree.x[zoomed]) * scale, y, width: tree.totalOf(node) * scale, height: ROW };
  }

  nodeAt(event) {
    const { tree, zoomed } = this;
    const chart = this.element.getBoundingClientRect();
    const row = Math.floor((event.clientY - chart.top - this.element.clientTop + this.element.scrollTop) / ROW);
    const depth = this.up ? tree.rows - 1 - row : row;
    const way = tree.ancestors(zoomed);
    if (depth < way.length) return depth < 0 ? -1 : way[depth];
    const at = tree.x[zoomed] + (event.clientX - chart.left - this.element.clientLeft) / this.scale();
    for (let i = zoomed; i < tree.end[zoomed];) {
      if (at < tree.x[i] || at >= tree.x[i] + tree.totalOf(i)) i = tree.end[i];
      else if (tree.depth(i) === depth) return i;
      else i++;
    }
    return -1;
  }

  // zoom draws a node at full width.
  zoom(node) {
    this.zoomed = node;
    this.point(-1);
    const y = this.top(this.tree.depth(node));
    const { scrollTop, clientHeight } = this.element;
    if (y < scrollTop || y > scrollTop + clientHeight / 2) {
      this.element.scrollTop = Math.max(0, this.up ? y + 3 * ROW - clientHeight : y - 2 * ROW);
    }
    this.draw();
  }

  // point outlines the node below the pointer.
  point(node) {
    this.hover = node;
    this.element.style.cursor = node < 0 ? '' : 'pointer';
    this.outline(this.hoverBox, node);
  }

  // choose outlines the node of the keyboard, and scrolls to it.
  choose(node) {
    this.chosen = node;
    this.outline(this.chosenBox, node);
    if (node < 0) return;
    const y = this.top(this.tree.depth(node));
    if (y < this.element.scrollTop) this.element.scrollTop = y;
    const hidden = y + ROW - this.element.scrollTop - this.element.clientHeight;
    if (hidden > 0) this.element.scrollTop += hidden;
  }

  outline(frame, node) {
    const box = node < 0 ? null : this.box(node);
    frame.hidden = box === null;
    if (!box) return;
    frame.style.transform = 'translate(' + box.x + 'px, ' + box.y + 'px)';
    frame.style.width = Math.max(box.width - 1, 3) + 'px';
  }

  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (this.tree && this.element.clientWidth > 0) this.paint();
    });
  }

  paint() {
    const pen = this.startPaint();
    const { tree, zoomed } = this;
    this.forgetBins();
    const top = this.element.scrollTop;
    const height = this.element.clientHeight;
    const labels = [];
    for (const node of tree.ancestors(zoomed)) {
      this.fillRects(
        pen,
        this.bin(node),
        [0, this.top(tree.depth(node)) - top, this.element.clientWidth],
        node !== zoomed,
      );
      labels.push(node, 0, this.top(tree.depth(node)) - top, this.element.clientWidth);
    }
    this.visible(top, height, labels).forEach((rects, bin) => this.fillRects(pen, bin, rects, false));
    this.write(pen, labels);
    this.outline(this.hoverBox, this.hover);
    this.outline(this.chosenBox, this.chosen);
  }

  startPaint() {
    const { clientWidth: width, clientHeight: height } = this.element;
    const ratio = window.devicePixelRatio || 1;
    const { canvas } = this;
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
    return pen;
  }

  // visible returns the rectangles of the nodes below the zoomed node by bin, and adds the labels.
  visible(top, height, labels) {
    const { tree, zoomed } = this;
    const { depth: depths, total: totals } = tree.nodes;
    const scale = this.scale();
    const first = tree.x[zoomed];
    const rects = []; // by bin
    for (let i = zoomed + 1; i < tree.end[zoomed];) {
      const width = totals[i] * scale;
      const y = this.top(depths[i]) - top;
      if (width < THIN || (this.up ? y < -ROW : y > height)) {
        i = tree.end[i];
        continue;
      }
      if (y > -ROW && y < height) {
        const x = (tree.x[i] - first) * scale;
        const bin = this.bin(i);
        (rects[bin] = rects[bin] || []).push(x, y, width);
        if (width > 26) labels.push(i, x, y, width);
      }
      i++;
    }
    return rects;
  }

  // forgetBins drops the bins of nodes if the shown groups or the highlighted nodes have changed.
  forgetBins() {
    const { only, matching } = this.owner;
    const of = [this.groups, only, matching];
    if (this.binsOf && of.every((what, i) => what === this.binsOf[i])) return;
    this.binsOf = of;
    this.bins = new Uint32Array(this.tree.length); // 0 if not known yet
  }

  // bin returns the number of the way to draw a node: by its group, inlined or not, highlighted or not.
  bin(node) {
    if (this.bins[node] === 0) {
      const pale = this.owner.pale(this.tree.frame(node));
      this.bins[node] = (this.groups[node] + 1) * 4 + (pale ? 2 : 0) + (this.isHighlighted(node) ? 1 : 0);
    }
    return this.bins[node] - 4;
  }

  isHighlighted(node) {
    const { only, matching } = this.owner;
    if (only >= 0 && this.groups[node] !== only) return false;
    const frame = this.tree.frame(node);
    return !matching || (frame >= 0 && matching[frame] === 1);
  }

  // fillRects draws rectangles of one bin, aligned to whole pixels of the screen, as a browser takes longer for parts
  // of pixels. Ancestors of the zoomed node are paler.
  fillRects(pen, bin, rects, ancestor) {
    const { palette, colouring } = this.owner;
    const group = colouring.groups[bin >> 2];
    const ratio = window.devicePixelRatio || 1;
    const whole = (pixels) => Math.round(pixels * ratio) / ratio;
    pen.globalAlpha = bin & 1 ? (ancestor ? 0.6 : 1) : 0.22;
    for (const style of [
      group.hatched ? palette.hatched() : palette.color(group.color),
      bin & 2 ? palette.color('pale') : '',
    ]) {
      if (!style) continue;
      pen.fillStyle = style;
      for (let i = 0; i < rects.length; i += 3) {
        const x = whole(rects[i]);
        const width = whole(rects[i] + rects[i + 2]) - x;
        pen.fillRect(x, whole(rects[i + 1]), width > 2 ? width - 1 : Math.max(width, 1 / ratio), ROW - 1);
      }
    }
    pen.globalAlpha = 1;
  }

  write(pen, labels) {
    pen.fillStyle = this.owner.palette.color('frame-text');
    for (let i = 0; i < labels.length; i += 4) {
      pen.globalAlpha = this.bin(labels[i]) & 1 ? 1 : 0.7;
      const text = this.fit(pen, this.tree.name(labels[i]), labels[i + 3] - 9);
      if (text) pen.fillText(text, labels[i + 1] + 4, labels[i + 2] + ROW / 2);
    }
    pen.globalAlpha = 1;
  }

  // fit returns the longest form of a name that fits.
  fit(pen, name, width) {
    let forms = this.texts.get(name);
    if (!forms) {
      const short = shorten(name);
      forms = Array.from(new Set([name, short, withoutPath(short)]), (text) => ({
        text,
        width: this.widthOf(pen, text),
      }));
      this.texts.set(name, forms);
    }
    for (const form of forms) if (form.width <= width) return form.text;
    const { text } = forms[forms.length - 1];
    let left = width - this.widthOf(pen, '…');
    let cut = '';
    for (const character of text) {
      left -= this.widthOf(pen, character);
      if (left < 0) break;
      cut += character;
    }
    return cut.length > 1 ? cut + '…' : '';
  }

  // widthOf adds up the widths of a text's characters. Measuring each text takes a browser several times as long.
  widthOf(pen, text) {
    let sum = 0;
    for (const character of text) {
      let width = this.widths.get(character);
      if (width === undefined) {
        width = pen.measureText(character).width;
        this.widths.set(character, width);
      }
      sum += width;
    }
    return sum;
  }
}
