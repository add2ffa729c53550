// The colours of a comparison, from a large decrease to a large increase.
const SHADES = {
  less3: 'less than −43 %',
  less2: 'to −43 %',
  less1: 'to −20 %',
  same: 'no certain difference',
  more1: 'to +25 %',
  more2: 'to +75 %',
  more3: 'more than +75 %',
};
const CERTAIN = 4; // standard deviations from which a difference is coloured

// Comparison has the view's texts and colours for two profiles: the width of a frame is the sum of both profiles, and
// its colour shows the difference.
class Comparison {
  constructor(profile) {
    this.profile = profile;
    this.diff = profile.data.diff;
    this.colourings = { change: () => this.byChange() };
    this.hint = 'The width of a frame is the sum of before and after. ' + new Plain(profile).hint;
    this.heading = 'Functions by self value';
    this.sort = '-change';
    const before = (fn, sums) => sums.base_self[fn];
    const after = (fn, sums) => sums.self[fn] - sums.base_self[fn];
    const binary = (fn) => base(profile.binary(profile.first[fn]));
    this.columns = [
      { id: 'name', label: 'Function', rank: (fn) => profile.name(fn) },
      {
        id: 'before',
        label: 'Before',
        class: 'n amount',
        cell: (fn, sums) => this.amount(before(fn, sums)),
        rank: before,
      },
      { id: 'after', label: 'After', class: 'n amount', cell: (fn, sums) => this.amount(after(fn, sums)), rank: after },
      {
        id: 'change',
        label: 'Change',
        class: 'n',
        cell: (fn, sums) => change(before(fn, sums), after(fn, sums)),
        rank: (fn, sums) => this.weight(fn, before(fn, sums), after(fn, sums)),
      },
      {
        id: 'between',
        label: 'Between',
        class: 'n between',
        cell: (fn) => {
          const b = this.bound(fn);
          return b ? between(b) : '';
        },
      },
      {
        id: 'binary',
        label: 'Binary',
        class: 'binary',
        cell: binary,
        rank: binary,
        title: (fn) => profile.binary(profile.first[fn]),
      },
    ];
  }

  // weight returns the sort key of functions: certain changes come first.
  weight(fn, before, after) {
    const bound = this.bound(fn);
    return Math.abs(after - before) + (bound && bound.certain ? 2 * this.profile.total : 0);
  }

  // bound returns the certain bounds of a function, or null if there are none.
  bound(fn) {
    if (fn < 0) return null;
    const { functions, changes } = this.diff;
    const at = functions[this.profile.first[fn]];
    return at < 0 ? null : changes[at];
  }

  // amount returns a value as text, per second or per the unit of the comparison.
  amount(value) {
    const { unit, scale } = this.profile.data;
    const { per: unitOfTime, by } = this.diff;
    const per = (value * scale) / by;
    if (unitOfTime === 'cpu') return percent(unit === 'nanoseconds' ? per / 1e9 : per, 1);
    if (unit !== 'nanoseconds') return per.toPrecision(4) + (unitOfTime === 'second' ? '/s' : '');
    const ms = per / 1e6;
    return (ms >= 100 ? ms.toFixed(0) : ms.toPrecision(3)) + (unitOfTime === 'second' ? ' ms/s' : ' ms');
  }

  // shade returns the colour of a difference, or 'same' if chance explains it.
  shade(was, is) {
    const { diff } = this;
    const variance =
      was * diff.base_sample + was * was * diff.base_spread + is * diff.new_sample + is * is * diff.new_spread;
    if (Math.abs(is - was) < CERTAIN * Math.sqrt(variance)) return 'same';
    const step = Math.abs(Math.log2(is / was));
    return (is > was ? 'more' : 'less') + (step < Math.log2(1.25) ? 1 : step < Math.log2(1.75) ? 2 : 3);
  }

  was(tree, node) {
    return tree.nodes.base_total[node];
  }
  is(tree, node) {
    return tree.totalOf(node) - this.was(tree, node);
  }
  shadeOf(tree, node) {
    return this.shade(this.was(tree, node), this.is(tree, node));
  }

  byChange() {
    const keys = Object.keys(SHADES);
    const groups = keys.map((key) => ({ key, label: SHADES[key], color: key, listed: true, bare: true }));
    const small = groups.push({ key: 'small', label: KINDS.small, color: 'small', listed: false }) - 1;
    return {
      title: 'Change of frames',
      groups,
      of: (tree, node) => (tree.frame(node) < -1 ? small : keys.indexOf(this.shadeOf(tree, node))),
    };
  }

  mark(fn, sums) {
    const bound = this.bound(fn);
    const was = sums.base_self[fn];
    const shade = bound && !bound.certain ? 'same' : this.shade(was, sums.self[fn] - was);
    return {
      row: { 'data-shade': shade, 'data-certain': String(bound !== null && bound.certain) },
      swatch: { 'data-shade': shade },
    };
  }

  describe(tree, node) {
    const frame = tree.frame(node);
    const both = (was, is) => this.amount(was) + ' before, ' + this.amount(is) + ' after: ' + change(was, is);
    const out = [['', tree.name(node)]];
    if (this.profile.binary(frame)) out.push(['binary', this.profile.binary(frame)]);
    out.push(['with callees', both(this.was(tree, node), this.is(tree, node))]);
    if (this.shadeOf(tree, node) === 'same') out.push(['', 'no more than by chance']);
    const own = tree.nodes.base_self[node];
    if (frame >= 0) out.push(['itself', both(own, tree.self(node) - own)]);
    const bound = this.bound(tree.functionOf(node));
    if (bound) {
      out.push(['the function itself, from all callers', between(bound) + (bound.certain ? '' : ': not certain')]);
    }
    return out;
  }

  share(tree, node) {
    return change(this.was(tree, node), this.is(tree, node));
  }
}

// change returns the change from was to is as text.
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
    return bound.low < 0.01 ? 'unknown' : 'at least ' + more(bound.low);
  }
  return more(bound.low) + ' and ' + more(bound.high);
}
