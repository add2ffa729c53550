// Tree holds nodes in preorder, as in trie.Nodes, with the data for drawing: for each node its parent, the end of its
// subtree, and its start in the total width.
class Tree {
  // all is the value of which the values are a part, by default the total of the profile.
  constructor(profile, nodes, all = profile.total) {
    this.profile = profile;
    this.all = all;
    this.nodes = nodes;
    this.length = nodes.frame.length;
    this.total = nodes.total[0];
    this.parent = new Int32Array(this.length).fill(-1);
    this.end = new Int32Array(this.length);
    this.x = new Float64Array(this.length);
    this.rows = 0;
    const way = []; // the node and its ancestors
    const cursor = [];
    for (let i = 0; i < this.length; i++) {
      const depth = nodes.depth[i];
      while (way.length > depth) this.end[way.pop()] = i;
      if (depth > 0) {
        this.parent[i] = way[depth - 1];
        this.x[i] = cursor[depth - 1];
        cursor[depth - 1] += nodes.total[i];
      }
      way[depth] = i;
      cursor[depth] = this.x[i];
      this.rows = Math.max(this.rows, depth + 1);
    }
    while (way.length) this.end[way.pop()] = this.length;
  }

  depth(node) {
    return this.nodes.depth[node];
  }
  self(node) {
    return this.nodes.self[node];
  }
  totalOf(node) {
    return this.nodes.total[node];
  }
  frame(node) {
    return this.nodes.frame[node];
  }

  // functionOf returns the function of a node, -1 for the root and for folded nodes.
  functionOf(node) {
    const frame = this.nodes.frame[node];
    return frame < 0 ? -1 : this.profile.of[frame];
  }

  name(node) {
    const frame = this.frame(node);
    if (frame === -1) return 'all';
    return frame < 0 ? '(' + count(-1 - frame) + ' more)' : this.profile.frameName(frame);
  }

  kind(node) {
    const frame = this.frame(node);
    if (frame < 0) return frame === -1 ? 'other' : 'small';
    return this.profile.kind(frame);
  }

  inlined(node) {
    const frame = this.frame(node);
    return frame >= 0 && this.profile.inlined(frame);
  }

  // place returns the file and line of a node, or else the first line of its function.
  place(node) {
    const frame = this.frame(node);
    if (frame < 0) return '';
    const file = this.profile.file(frame);
    const line = this.nodes.line[node] || this.profile.data.frames.start[frame];
    return file && line ? file + ':' + line : file;
  }

  ancestors(node) {
    const out = [];
    for (let i = node; i >= 0; i = this.parent[i]) out.push(i);
    return out.reverse();
  }

  children(node) {
    const out = [];
    for (let i = node + 1; i < this.end[node]; i = this.end[i]) out.push(i);
    return out;
  }

  // child returns the first child of a node, or -1 if it has none.
  child(node) {
    return this.end[node] > node + 1 ? node + 1 : -1;
  }

  // beside returns the nearest node of the same depth to the right (1) or left (-1), -1 if there is none.
  beside(node, step) {
    const depth = this.depth(node);
    for (let i = step > 0 ? this.end[node] : node - 1; i > 0 && i < this.length; i += step) {
      if (this.depth(i) === depth) return i;
    }
    return -1;
  }

  // outermost calls visit with each node that has(node) accepts, unless it is below another accepted node.
  outermost(has, visit) {
    for (let i = 0; i < this.length;) {
      if (has(i)) {
        visit(i);
        i = this.end[i];
      } else {
        i++;
      }
    }
  }

  // sums adds up self and total of each function.
  sums() {
    const zeros = () => new Array(this.profile.functions).fill(0);
    const { nodes } = this;
    const out = { self: zeros(), total: zeros() };
    const pairs = [[nodes.self, out.self, nodes.total, out.total]];
    if (nodes.base_self) {
      out.base_self = zeros();
      out.base_total = zeros();
      pairs.push([nodes.base_self, out.base_self, nodes.base_total, out.base_total]);
    }
    const until = new Int32Array(this.profile.functions); // end of the outermost node of a function
    for (let i = 1; i < this.length; i++) {
      const fn = this.functionOf(i);
      if (fn < 0) continue;
      const inside = i < until[fn];
      for (const [self, selfs, total, totals] of pairs) {
        selfs[fn] += self[i];
        if (!inside) totals[fn] += total[i];
      }
      if (!inside) until[fn] = this.end[i];
    }
    return out;
  }
}
