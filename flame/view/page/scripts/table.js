// FunctionTable lists all functions.
class FunctionTable {
  // open(fn, at) is called for the function that was picked; at is the element to place a menu at.
  constructor(subject, { open, menu, sorted }) {
    this.subject = subject;
    this.profile = subject.profile;
    this.open = open;
    this.sorted = sorted;
    this.note = element('p', { class: 'note' });
    this.table = element(
      'table',
      { class: 'top', role: 'grid', 'aria-labelledby': 'top-heading' },
      element('thead', {}, element('tr', { 'aria-rowindex': '1' }, ...subject.columns.map((c) => this.head(c)))),
    );
    this.scroller = element('div', { class: 'scroll rows' }, this.table);
    this.element = element(
      'section',
      { 'aria-labelledby': 'top-heading', class: 'table' },
      element('h2', { id: 'top-heading' }, subject.heading),
      this.scroller,
      this.note,
    );
    this.order = [];
    this.rows = new Rows(this.scroller, this.table, {
      make: (i) => this.row(this.order[i]),
      act: (i) => open(this.order[i], this.rows.rowOf(i)),
      key: (i, event) => event.key === 'ContextMenu' && (menu(this.order[i], this.rows.rowOf(i)), true),
    });
    this.scroller.addEventListener('contextmenu', (event) => {
      const row = event.target.closest('tbody tr');
      if (!row || row.at === undefined) return;
      event.preventDefault();
      menu(this.order[row.at], row, event);
    });
  }

  head(column) {
    const cell = element('th', { scope: 'col', class: column.class || 'name', 'data-column': column.id });
    if (!column.rank) {
      cell.append(column.label);
      return cell;
    }
    const button = element('button', { type: 'button' }, column.label);
    button.addEventListener('click', () => this.sorted(this.nextSort(column)));
    cell.append(button);
    return cell;
  }

  // nextSort returns the order after a click on a column. It reverses the order if it is by this column already.
  // Numbers start with the largest.
  nextSort(column) {
    const down = column.class && column.class.startsWith('n') ? '-' : '';
    return this.sort === down + column.id ? (down ? '' : '-') + column.id : down + column.id;
  }

  // show lists the functions that has(fn) accepts, with the given sums, sorted by a column: '-' before its name is for
  // descending. note(n) remarks on a list of n functions.
  show(sums, total, sort, has, note) {
    const down = sort.startsWith('-');
    const column =
      this.subject.columns.find((c) => c.rank && c.id === sort.replace('-', '')) || this.subject.columns[1];
    this.sums = sums;
    this.total = total;
    this.sort = (down ? '-' : '') + column.id;
    this.order = [];
    for (let fn = 0; fn < this.profile.functions; fn++) {
      if (has(fn) && (sums.self[fn] > 0 || sums.total[fn] > 0)) this.order.push(fn);
    }
    const ranks = new Map(this.order.map((fn) => [fn, column.rank(fn, sums)]));
    const compare = (a, b) => {
      const x = ranks.get(a);
      const y = ranks.get(b);
      return x < y ? -1 : x > y ? 1 : 0;
    };
    this.order.sort((a, b) => (down ? -compare(a, b) : compare(a, b)) || sums.self[b] - sums.self[a] || a - b);
    for (const cell of this.table.tHead.rows[0].cells) {
      if (cell.dataset.column === column.id) cell.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
    }
    this.note.textContent =
      count(this.order.length) +
      (this.order.length === 1 ? ' function.' : ' functions.') +
      note(this.order.length);
    this.scroller.scrollTop = 0;
    this.rows.show(this.order.length, 0);
  }

  // row returns a function's row of the table.
  row(fn) {
    const mark = this.subject.mark(fn, this.sums);
    const name = this.profile.name(fn);
    const link = element(
      'button',
      { type: 'button', class: 'function', tabindex: '-1', title: name },
      name.length > 90 ? shorten(name) : name,
    );
    link.addEventListener('click', () => this.open(fn, link));
    const cells = this.subject.columns.slice(1).map((column) =>
      element(
        'td',
        {
          class: column.class,
          title: column.title ? column.title(fn) : false,
        },
        column.cell(fn, this.sums, this.total),
      ),
    );
    return element(
      'tr',
      mark.row,
      element('th', { scope: 'row' }, element('span', { class: 'swatch', ...mark.swatch }), link),
      ...cells,
    );
  }
}
