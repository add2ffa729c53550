// Trees derived from another tree: without some functions, only with the stacks through some functions, in another
// order, and the callers and callees of a function.

const FOLDED = -2; // stands for nodes folded by the server

// Adder adds up stacks as a tree.
class Adder {
  // The first argument is the tree of the stacks, frame is the frame of the root.
  constructor({ profile, all }, frame) {
    this.profile = profile;
    this.all = all;
    this.compares = profile.data.diff !== undefined;
    this.edges = new Map();
    this.frames = [frame];
    this.parents = [-1];
    this.lines = [0];
    this.folded = [0]; // number of nodes that a folded node stands for
    this.self = [0];
    this.base = [0];
  }

  // child returns the node of a frame below a parent. frame and line are as in the nodes of a profile.
  child(parent, frame, line) {
    const key = parent * 2 ** 22 + Math.max(frame, FOLDED) + 2;
    let at = this.edges.get(key);
    if (at === undefined) {
      at = this.frames.push(Math.max(frame, FOLDED)) - 1;
      this.edges.set(key, at);
      this.parents.push(parent);
      this.lines.push(line);
      this.folded.push(0);
      this.self.push(0);
      this.base.push(0);
    } else if (this.lines[at] !== line) {
      this.lines[at] = 0;
    }
    if (frame <= FOLDED) this.folded[at] += -1 - frame;
    return at;
  }

  add(node, self, base) {
    this.self[node] += self;
    this.base[node] += base;
  }

  // tree returns the sum, with children ordered by size or by name.
  tree(order) {
    const total = this.self.slice();
    const baseTotal = this.base.slice();
    const children = this.frames.map(() => []);
    for (let i = this.frames.length - 1; i > 0; i--) {
      // a child was added after its parent
      total[this.parents[i]] += total[i];
      baseTotal[this.parents[i]] += baseTotal[i];
      children[this.parents[i]].push(i);
    }
    const name = (i) => (this.frames[i] < 0 ? '\uffff' : this.profile.frameName(this.frames[i]));
    const byName = (a, b) => (name(a) < name(b) ? -1 : name(a) > name(b) ? 1 : total[b] - total[a]);
    const bySize = (a, b) => (this.frames[a] < 0) - (this.frames[b] < 0) || total[b] - total[a] || byName(a, b);
    for (const list of children) list.sort(order === 'name' ? byName : bySize);
    return new Tree(this.profile, this.columns(children, total, baseTotal), this.all);
  }

  columns(children, total, baseTotal) {
    const out = { frame: [], depth: [], line: [], self: [], total: [] };
    if (this.compares) Object.assign(out, { base_self: [], base_total: [] });
    const rest = [[0, 0]];
    while (rest.length) {
      const [i, depth] = rest.pop();
      out.frame.push(this.frames[i] === FOLDED ? -1 - this.folded[i] : this.frames[i]);
      out.depth.push(depth);
      out.line.push(this.lines[i]);
      out.self.push(this.self[i]);
      out.total.push(total[i]);
      if (this.compares) {
        out.base_self.push(this.base[i]);
        out.base_total.push(baseTotal[i]);
      }
      for (let k = children[i].length - 1; k >= 0; k--) rest.push([children[i][k], depth + 1]);
    }
    return out;
  }
}

const baseSelf = (tree, node) => (tree.nodes.base_self ? tree.nodes.base_self[node] : 0);

// filtered returns a tree of the stacks through all functions of focus, without the frames of functions in hide: their
// self goes to their callers. order is size or name.
function filtered(tree, focus, hide, order) {
  if (!focus.length && !hide.length && order === 'size') return tree;
  const kept = throughAll(tree, focus);
  const hidden = new Set(hide);
  const adder = new Adder(tree, -1);
  const to = [0]; // the new node, by depth
  for (let i = 0; i < tree.length; i++) {
    if (!kept.below[i]) {
      // no stack of its subtree is through all functions
      i = tree.end[i] - 1;
      continue;
    }
    const depth = tree.depth(i);
    if (i > 0) {
      const above = to[depth - 1];
      to[depth] = hidden.has(tree.functionOf(i)) ? above : adder.child(above, tree.frame(i), tree.nodes.line[i]);
    }
    if (kept.itself[i]) adder.add(to[depth], tree.self(i), baseSelf(tree, i));
  }
  return adder.tree(order);
}

// throughAll returns, by node, whether the path to it has all functions, and whether that is so for it or for a node
// below it.
function throughAll(tree, functions) {
  const itself = new Uint8Array(tree.length);
  const below = new Uint8Array(tree.length);
  const missing = [new Set(functions)]; // by depth
  for (let i = 0; i < tree.length; i++) {
    const depth = tree.depth(i);
    if (depth > 0) {
      const above = missing[depth - 1];
      const fn = tree.functionOf(i);
      missing[depth] = above.has(fn) ? new Set([...above].filter((f) => f !== fn)) : above;
    }
    itself[i] = Number(missing[depth].size === 0);
  }
  for (let i = tree.length - 1; i >= 0; i--) {
    below[i] |= itself[i];
    if (i > 0) below[tree.parent[i]] |= below[i];
  }
  return { itself, below };
}

// callees returns a tree of the callees of a function, with the function as its root.
function callees(tree, fn, order) {
  const adder = new Adder(tree, tree.profile.first[fn]);
  tree.outermost(
    (i) => tree.functionOf(i) === fn,
    (top) => {
      const to = [];
      for (let i = top; i < tree.end[top]; i++) {
        const depth = tree.depth(i) - tree.depth(top);
        to[depth] = depth === 0 ? 0 : adder.child(to[depth - 1], tree.frame(i), tree.nodes.line[i]);
        adder.add(to[depth], tree.self(i), baseSelf(tree, i));
      }
    },
  );
  return adder.tree(order);
}

// callers returns a tree of the callers of a function, with the function as its root: the children of a node are its
// callers.
function callers(tree, fn, order) {
  const adder = new Adder(tree, tree.profile.first[fn]);
  tree.outermost(
    (i) => tree.functionOf(i) === fn,
    (top) => {
      let at = 0;
      for (let i = tree.parent[top]; i > 0; i = tree.parent[i]) at = adder.child(at, tree.frame(i), tree.nodes.line[i]);
      adder.add(at, tree.totalOf(top), tree.nodes.base_total ? tree.nodes.base_total[top] : 0);
    },
  );
  return adder.tree(order);
}
