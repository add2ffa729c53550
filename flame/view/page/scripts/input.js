// ChartInput handles pointer and keys of a chart.
class ChartInput {
  // view has zoomTo(chart, node), openMenu(chart, node, x, y), describe(chart, node), tip, and said, the element that
  // screen readers read.
  constructor(view, chart) {
    this.view = view;
    this.chart = chart;
    chart.input = this;
    const on = (name, act) => chart.element.addEventListener(name, act);
    on('pointermove', (event) => this.point(chart.nodeAt(event), event));
    on('pointerleave', () => this.point(-1));
    on('click', (event) => {
      const node = chart.nodeAt(event);
      if (node >= 0) view.zoomTo(chart, node);
    });
    on('contextmenu', (event) => {
      const node = event.button === 2 ? chart.nodeAt(event) : this.current();
      event.preventDefault();
      if (node >= 0) this.menu(node, event);
    });
    on('keydown', (event) => this.key(event));
    on('blur', () => {
      if (view.menu.isOpen) return;
      chart.choose(-1);
      view.tip.hide();
    });
  }

  current() {
    return this.chart.chosen < 0 ? this.chart.zoomed : this.chart.chosen;
  }

  point(node, event) {
    const { chart, view } = this;
    if (node !== chart.hover) chart.point(node);
    if (node < 0) view.tip.hide();
    else view.tip.show(chart.element.id + node, () => view.describe(chart, node), event.clientX, event.clientY);
  }

  // corner returns the point of the window below a node.
  corner(node) {
    const chart = this.chart.element.getBoundingClientRect();
    const box = this.chart.box(node) || { x: 0, y: 0 };
    return { x: chart.left + box.x, y: chart.top + box.y - this.chart.element.scrollTop + ROW };
  }

  menu(node, event) {
    this.chart.choose(node);
    const { x, y } = event && event.button === 2 ? { x: event.clientX, y: event.clientY } : this.corner(node);
    this.view.openMenu(this.chart, node, x, y);
  }

  key(event) {
    const { tree } = this.chart;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const from = this.current();
    let to = -1;
    const down = this.chart.up ? 'ArrowUp' : 'ArrowDown';
    const up = this.chart.up ? 'ArrowDown' : 'ArrowUp';
    switch (event.key) {
      case down:
        to = this.chart.chosen < 0 ? from : tree.child(from);
        break;
      case up:
        to = tree.parent[from];
        break;
      case 'ArrowLeft':
        to = tree.beside(from, -1);
        break;
      case 'ArrowRight':
        to = tree.beside(from, 1);
        break;
      case 'Home':
        to = this.chart.zoomed;
        break;
      case 'Enter':
        this.menu(from);
        break;
      case ' ':
        this.view.zoomTo(this.chart, from);
        to = from;
        break;
      default:
        return;
    }
    event.preventDefault();
    if (to >= 0 && this.chart.box(to)) this.choose(to);
  }

  // choose moves the keyboard's node, and announces it to screen readers.
  choose(node) {
    this.chart.choose(node);
    const pairs = this.view.describe(this.chart, node);
    this.view.said.textContent = pairs.map((pair) => pair.join(' ').trim()).join('; ');
    const { x, y } = this.corner(node);
    this.view.tip.show(this.chart.element.id + node, () => pairs, x, y - 18);
  }
}
