// Links identify a node by the functions from the root to it: the 64-bit FNV-1a hash of name and binary of each
// function, each followed by a zero byte. The hash is the same in other profiles, and equals the server's trie.PathID.

const PATH_ROOT = [0xcbf29ce4, 0x84222325];

// addBytes continues a hash, which has two halves of 32 bits.
function addBytes([high, low], bytes) {
  for (const byte of bytes) {
    low = (low ^ byte) >>> 0;
    const product = low * 0x1b3;
    high = (high * 0x1b3 + Math.floor(product / 2 ** 32) + low * 256) >>> 0; // times 2^40 + 0x1b3
    low = product >>> 0;
  }
  return [high, low];
}

const pathText = ([high, low]) => high.toString(16).padStart(8, '0') + low.toString(16).padStart(8, '0');

// Paths finds nodes of a tree by their path, and returns the path of a node.
class Paths {
  constructor(tree) {
    this.tree = tree;
    this.encoder = new TextEncoder();
    this.texts = new Map(); // by function
    this.nodes = null; // by path; null until the first find
  }

  // of returns the path of a node, '' for the root.
  of(node) {
    if (node <= 0) return '';
    let hash = PATH_ROOT;
    for (const i of this.tree.ancestors(node).slice(1)) hash = addBytes(hash, this.bytes(i));
    return pathText(hash);
  }

  // find returns the node of a path, -1 if there is none.
  find(path) {
    if (!path) return 0;
    if (!this.nodes) this.readAll();
    const node = this.nodes.get(path);
    return node === undefined ? -1 : node;
  }

  readAll() {
    const { tree } = this;
    this.nodes = new Map();
    const hashes = [PATH_ROOT]; // by depth
    for (let i = 1; i < tree.length; i++) {
      const depth = tree.depth(i);
      hashes[depth] = addBytes(hashes[depth - 1], this.bytes(i));
      const path = pathText(hashes[depth]);
      if (!this.nodes.has(path)) this.nodes.set(path, i); // of an inlined and a normal copy, the larger one
    }
  }

  bytes(node) {
    const fn = this.tree.functionOf(node);
    let bytes = this.texts.get(fn);
    if (!bytes) {
      const { profile } = this.tree;
      const texts = fn < 0 ? ['(more)', ''] : [profile.name(fn), profile.binary(profile.first[fn])];
      bytes = this.encoder.encode(texts[0] + '\0' + texts[1] + '\0');
      this.texts.set(fn, bytes);
    }
    return bytes;
  }
}
