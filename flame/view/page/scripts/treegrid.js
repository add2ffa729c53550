// TreeGrid shows the tree as rows that open and close.
class TreeGrid {
  constructor(subject, { menu }) {
    this.subject = subject;
    this.table = element(
      'table',
      { class: 'calls', role: 'treegrid', 'aria-labelledby': 'tree-heading' },
      element(
        'thead',
        {},
        element(
          'tr',
          { 'aria-rowindex': '1' },
          element('th', { scope: 'col', class: 'name' }, 'Function'),
          element('th', { scope: 'col', class: 'n' }, 'Total'),
          element('th', { scope: 'col', class: 'n' }, 'Self'),
          element('th', { scope: 'col', class: 'binary' }, 'Binary'),
        ),
      ),
    );
    this.scroller = element('div', { class: 'scroll rows' }, this.table);
    this.element = element(
      'section',
      { 'aria-labelledby': 'tree-heading', class: 'tree' },
      element('h2', { id: 'tree-heading' }, 'Call tree'),
      this.scroller,
    );
    this.rows = new Rows(this.scroller, this.table, {
      make: (i) => this.row(this.shown[i]),
      act: (i) => menu(this.shown[i], this.rows.rowOf(i)),
      key: (i, event) => this.key(i, event, menu),
    });
    this.scroller.addEventListener('contextmenu', (event) => {
      const row = event.target.closest('tbody tr');
      if (!row || row.at === undefined) return;
      event.preventDefault();
      menu(this.shown[row.at], row, event);
    });
  }

  // show starts with the rows on the hottest path from root.
  show(tree, groups, colouring, root, matching) {
    const again = this.tree === tree && this.root === root;
    Object.assign(this, { tree, groups, colouring, root, matching });
    if (!again) {
      this.open = new Set();
      for (let at = root, most = tree.totalOf(root) / 2; at >= 0 && tree.totalOf(at) >= most;) {
        this.open.add(at);
        at = tree.children(at).reduce((a, b) => (a < 0 || tree.totalOf(b) > tree.totalOf(a) ? b : a), -1);
      }
    }
    this.list(again ? this.rows.active : 0);
  }

  // list finds the rows whose ancestors are open.
  list(active) {
    const { tree, root } = this;
    this.shown = [];
    for (let i = root; i < tree.end[root];) {
      this.shown.push(i);
      i = this.open.has(i) ? i + 1 : tree.end[i];
    }
    this.rows.show(this.shown.length, active);
  }

  row(node) {
    const { tree } = this;
    const profile = tree.profile;
    const leaf = tree.child(node) < 0;
    const open = this.open.has(node);
    const depth = tree.depth(node) - tree.depth(this.root);
    const name = tree.name(node);
    const toggle = element('span', { class: 'toggle', 'aria-hidden': 'true' }, leaf ? '' : open ? '▾' : '▸');
    const group = this.colouring.groups[this.groups[node]];
    const swatch = element('span', { class: 'swatch' + (group.hatched ? ' hatched' : '') });
    swatch.style.setProperty('--swatch', 'var(--' + group.color + ')');
    const cell = element('th', { scope: 'row', title: name }, toggle, swatch, name.length > 90 ? shorten(name) : name);
    cell.style.paddingLeft = Math.min(depth, 40) * 14 + 8 + 'px';
    const siblings = node === this.root ? [node] : tree.children(tree.parent[node]);
    const frame = tree.frame(node);
    const matches = this.matching && frame >= 0 && this.matching[frame];
    const row = element(
      'tr',
      {
        'aria-level': depth + 1,
        'aria-setsize': siblings.length,
        'aria-posinset': siblings.indexOf(node) + 1,
        'aria-expanded': leaf ? false : String(open),
        class: matches ? 'match' : false,
      },
      cell,
      element('td', { class: 'n', title: profile.value(tree.totalOf(node)) }, this.subject.share(tree, node)),
      element('td', { class: 'n', title: profile.value(tree.self(node)) }, percent(tree.self(node), profile.total)),
      element('td', { class: 'binary', title: profile.binary(frame) }, base(profile.binary(frame))),
    );
    row.addEventListener('click', () => {
      this.rows.active = row.at;
      this.toggle(row.at, !open);
    });
    return row;
  }

  toggle(i, open) {
    const node = this.shown[i];
    if (this.tree.child(node) < 0) return;
    if (open) this.open.add(node);
    else this.open.delete(node);
    this.list(i);
    this.rows.focus(i);
  }

  // reveal opens all ancestors of a node and moves to the node.
  reveal(node) {
    for (let i = this.tree.parent[node]; i >= 0; i = this.tree.parent[i]) this.open.add(i);
    this.list(0);
    this.rows.focus(this.shown.indexOf(node));
  }

  key(i, event, menu) {
    const node = this.shown[i];
    const leaf = this.tree.child(node) < 0;
    switch (event.key) {
      case 'ArrowRight':
        if (!leaf && this.open.has(node)) this.rows.focus(i + 1);
        else this.toggle(i, true);
        return true;
      case 'ArrowLeft':
        if (!leaf && this.open.has(node)) this.toggle(i, false);
        else if (node !== this.root) this.rows.focus(this.shown.indexOf(this.tree.parent[node]));
        return true;
      case ' ':
        this.toggle(i, !this.open.has(node));
        return true;
      case 'ContextMenu':
        menu(node, this.rows.rowOf(i));
        return true;
      default:
        return false;
    }
  }
}
