// Tip shows the description of a node, near the pointer or below the node.
class Tip {
  constructor() {
    this.element = element('div', { id: 'tip', hidden: true });
  }

  hide() {
    this.element.hidden = true;
  }

  // show shows the pairs that describe returns at a point of the window. key identifies the described node.
  show(key, describe, x, y) {
    this.element.hidden = false;
    if (this.key !== key) {
      this.key = key;
      this.element.replaceChildren(
        ...describe().map(([name, value]) =>
          name ? element('div', {}, element('span', { class: 'key' }, name), ' ', value) : element('strong', {}, value),
        ),
      );
      this.size = { width: this.element.offsetWidth, height: this.element.offsetHeight };
    }
    const { width, height } = this.size;
    const page = document.documentElement;
    this.element.style.left = Math.max(4, Math.min(x + 14, page.clientWidth - width - 6)) + 'px';
    const below = y + 18 + height <= page.clientHeight;
    this.element.style.top = (below ? y + 18 : Math.max(4, y - height - 12)) + 'px';
  }
}
