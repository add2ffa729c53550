const ROW_HEIGHT = 28; // height of a row, in CSS pixels; the style sheet has the same value
const SPARE_ROWS = 8; // number of rows to make above and below the visible ones

// Rows shows only the visible rows of a table, however many rows there are. One row takes the focus, and the keys for
// moving it.
class Rows {
  // table is in scroller, which scrolls. make(i) returns a row. act(i, event) is called for Enter. key(i, event) may
  // handle other keys, and then returns true.
  constructor(scroller, table, { make, act, key }) {
    this.scroller = scroller;
    this.table = table;
    this.body = element('tbody');
    table.append(this.body);
    this.make = make;
    this.act = act;
    this.otherKey = key || (() => false);
    this.count = 0;
    this.active = 0;
    this.above = this.spacer();
    this.below = this.spacer();
    scroller.addEventListener('scroll', () => this.render());
    scroller.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.render()).observe(scroller);
  }

  spacer() {
    const cell = element('td'); // only in the first column, as a phone shows fewer columns
    const row = element('tr', { 'aria-hidden': 'true', class: 'space' }, cell);
    return {
      row,
      set: (rows) => {
        cell.style.height = rows * ROW_HEIGHT + 'px';
      },
    };
  }

  // show makes the rows again, with a new count and active row.
  show(count, active) {
    this.count = count;
    this.active = Math.max(0, Math.min(active, count - 1));
    this.made = null;
    this.table.setAttribute('aria-rowcount', String(count + 1));
    this.render();
  }

  render() {
    const height = this.scroller.clientHeight;
    if (height === 0) return;
    const { scrollTop } = this.scroller;
    const first = Math.max(0, Math.min(Math.floor(scrollTop / ROW_HEIGHT) - SPARE_ROWS, this.count));
    const end = Math.min(this.count, Math.ceil((scrollTop + height) / ROW_HEIGHT) + SPARE_ROWS);
    const range = first + ' ' + end;
    if (this.made === range) return;
    this.made = range;
    const focused = this.body.contains(document.activeElement);
    const rows = [];
    for (let i = first; i < end; i++) rows.push(this.row(i));
    this.above.set(first);
    this.below.set(this.count - end);
    this.body.replaceChildren(
      ...(first > 0 ? [this.above.row] : []),
      ...rows,
      ...(end < this.count ? [this.below.row] : []),
    );
    if (this.scroller.scrollTop !== scrollTop) this.scroller.scrollTop = scrollTop; // limited while rows changed
    const active = this.rowOf(this.active);
    (active || rows[0] || this.scroller).tabIndex = 0;
    this.scroller.tabIndex = active || rows[0] ? -1 : 0;
    if (focused) (active || this.scroller).focus({ preventScroll: true });
  }

  row(i) {
    const row = this.make(i);
    row.setAttribute('aria-rowindex', String(i + 2));
    row.tabIndex = -1;
    row.at = i;
    row.addEventListener('focus', () => {
      this.active = i;
    });
    return row;
  }

  rowOf(i) {
    return Array.from(this.body.rows).find((row) => row.at === i);
  }

  // focus gives a row the focus, and scrolls to it.
  focus(i) {
    this.activate(i);
    const row = this.rowOf(i);
    if (row) row.focus({ preventScroll: true });
  }

  // activate scrolls to a row, and makes it the row that gets the table's focus.
  activate(i) {
    const { scroller } = this;
    this.active = i;
    const head = this.table.tHead.offsetHeight;
    const top = i * ROW_HEIGHT;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    const hidden = top + ROW_HEIGHT + head - scroller.scrollTop - scroller.clientHeight;
    if (hidden > 0) scroller.scrollTop += hidden;
    this.made = null;
    this.render();
  }

  key(event) {
    if (event.target.closest('thead') || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count };
    if (this.count === 0) return;
    if (steps[event.key]) {
      this.focus(Math.max(0, Math.min(this.active + steps[event.key], this.count - 1)));
    } else if (event.key === 'Enter' && !event.target.closest('button')) {
      this.act(this.active, event);
    } else if (!this.otherKey(this.active, event)) {
      return;
    }
    event.preventDefault();
  }
}
