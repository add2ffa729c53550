// Plain has the view's texts and colours for one profile. Comparison has the same methods for two profiles.
class Plain {
  constructor(profile) {
    this.profile = profile;
    this.colourings = { origin: byOrigin, binary: byBinary, package: byPackage };
    this.hint = 'Click zooms, right click or Enter opens a menu, Esc goes back, arrows move, / searches, ? lists all keys.';
    this.heading = 'Functions';
    this.sort = '-self';
    const share = (column) => (fn, sums, total) => percent(sums[column][fn], total);
    const value = (column) => (fn, sums) => profile.value(sums[column][fn]);
    const by = (column) => (fn, sums) => sums[column][fn];
    const kind = (fn) => kindText(profile, profile.first[fn]);
    const binary = (fn) => base(profile.binary(profile.first[fn]));
    const amount = profile.data.unit === 'nanoseconds' ? ' time' : ' value';
    this.columns = [
      { id: 'name', label: 'Function', rank: (fn) => profile.name(fn) },
      { id: 'self', label: 'Self', class: 'n', cell: share('self'), rank: by('self') },
      { id: 'self-value', label: 'Self' + amount, class: 'n value', cell: value('self') },
      { id: 'total', label: 'Total', class: 'n', cell: share('total'), rank: by('total') },
      { id: 'total-value', label: 'Total' + amount, class: 'n value', cell: value('total') },
      { id: 'kind', label: 'Kind', class: 'kind', cell: kind, rank: kind },
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

  // mark returns the attributes of a row of the table and of its swatch.
  mark(fn) {
    const kind = this.profile.kind(this.profile.first[fn]);
    return { row: { 'data-kind': kind }, swatch: { 'data-kind': kind } };
  }

  // describe returns the description of a node as pairs; the name has no key. zoomed is the node at full width.
  describe(tree, node, zoomed) {
    const { profile } = this;
    const frame = tree.frame(node);
    const parent = tree.parent[node];
    const kind = tree.kind(node);
    const out = [['', tree.name(node)]];
    const add = (key, value) => {
      if (value) out.push([key, value]);
    };
    add('at', tree.place(node));
    add('binary', profile.binary(frame));
    add('build ID', profile.build(frame));
    const total = tree.totalOf(node);
    add(
      'total',
      profile.value(total) +
        ', ' +
        percent(total, tree.all) +
        ' of all' +
        (parent > 0 ? ', ' + percent(total, tree.totalOf(parent)) + ' of its caller' : '') +
        (zoomed > 0 && zoomed !== node && zoomed !== parent && node > zoomed && node < tree.end[zoomed]
          ? ', ' + percent(total, tree.totalOf(zoomed)) + ' of the zoomed frame'
          : ''),
    );
    if (kind !== 'small') add('self', profile.value(tree.self(node)) + ', ' + percent(tree.self(node), tree.all));
    const fn = tree.functionOf(node);
    if (fn >= 0 && profile.sums.total[fn] !== total) {
      add(
        'everywhere',
        percent(profile.sums.total[fn], profile.all) + ', self ' + percent(profile.sums.self[fn], profile.all),
      );
    }
    if (frame !== -1) add('kind', kind === 'small' ? KINDS.small : kindText(profile, frame));
    return out;
  }

  // share returns the share of a node as text.
  share(tree, node) {
    return percent(tree.totalOf(node), tree.all);
  }
}

function kindText(profile, frame) {
  const kind = profile.kind(frame);
  return KINDS[kind] + (kind !== 'inlined' && profile.inlined(frame) ? ', inlined' : '');
}
