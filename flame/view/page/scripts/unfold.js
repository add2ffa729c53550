// Nodes that a server has folded are requested when the user zooms to them, and added to the data.

// Ids numbers keys, starting with the keys in the data.
class Ids {
  constructor(keys) {
    this.ids = new Map();
    for (const key of keys) if (!this.ids.has(key)) this.ids.set(key, this.ids.size);
  }

  // of returns the number of a key. It calls add if the key is new.
  of(key, add) {
    let id = this.ids.get(key);
    if (id === undefined) {
      id = this.ids.size;
      this.ids.set(key, id);
      add();
    }
    return id;
  }
}

// Equal mappings, functions and frames in the data and in a part have the same key: their texts and numbers.
const mappingKey = (data, i) =>
  i < 0 ? '' : data.strings[data.mappings.file[i]] + '\0' + data.strings[data.mappings.build[i]];
const functionKey = ({ strings, frames, mappings }, i) =>
  strings[frames.name[i]] + '\0' + (frames.mapping[i] < 0 ? '' : strings[mappings.file[frames.mapping[i]]]);
const frameKey = (data, i) => {
  const { name, file, start, mapping, kind, inlined } = data.frames;
  const texts = [data.strings[name[i]], data.strings[file[i]], mappingKey(data, mapping[i])];
  return [...texts, start[i], kind[i], inlined[i]].join('\0');
};

// addFrames adds the frames of a part to the data, and returns the frame of the data by frame of the part. The part's
// sums of functions are multiplied by share: 1 if they are for all samples, 0 if not.
function addFrames(data, part, share = 1) {
  const { frames, mappings, functions } = data;
  const strings = new Ids(data.strings);
  const text = (i) => strings.of(part.strings[i], () => data.strings.push(part.strings[i]));
  const files = new Ids(mappings.file.map((_, i) => mappingKey(data, i)));
  const mapping = (i) =>
    i < 0
      ? -1
      : files.of(mappingKey(part, i), () => {
          mappings.file.push(text(part.mappings.file[i]));
          mappings.build.push(text(part.mappings.build[i]));
        });
  const byFunction = new Map(frames.of.map((fn, i) => [functionKey(data, i), fn]));
  const functionOf = (i) => {
    const key = functionKey(part, i);
    if (!byFunction.has(key)) {
      byFunction.set(key, functions.self.length);
      functions.self.push(share * part.functions.self[part.frames.of[i]]);
      functions.total.push(share * part.functions.total[part.frames.of[i]]);
    }
    return byFunction.get(key);
  };
  const ids = new Ids(frames.name.map((_, i) => frameKey(data, i)));
  return part.frames.name.map((_, i) =>
    ids.of(frameKey(part, i), () => {
      frames.name.push(text(part.frames.name[i]));
      frames.file.push(text(part.frames.file[i]));
      frames.mapping.push(mapping(part.frames.mapping[i]));
      frames.of.push(functionOf(i));
      for (const column of ['start', 'kind', 'inlined', 'self', 'total']) frames[column].push(part.frames[column][i]);
    }),
  );
}

// wholeTree reads the tree of a file with the folded nodes, which is compressed JSON in base64. It returns null if
// there is none.
async function wholeTree() {
  const packed = document.getElementById('flame-whole');
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).json();
}

// endOf returns the end of the subtree of a node.
function endOf(depths, node) {
  let end = node + 1;
  while (end < depths.length && depths[end] > depths[node]) end++;
  return end;
}

// follow returns the node at a path of frames from the root, or -1 if there is none.
function follow(nodes, way) {
  let at = 0;
  for (const frame of way) {
    const end = endOf(nodes.depth, at);
    let child = at + 1;
    while (child < end && nodes.frame[child] !== frame) child = endOf(nodes.depth, child);
    if (child >= end) return -1;
    at = child;
  }
  return at;
}

const foldedIn = (frames) => frames.reduce((sum, frame) => sum + (frame < -1 ? -1 - frame : 0), 0);

// unfold replaces the nodes below a node by the nodes of a part, an answer of api/tree for that node. way has the
// frames from the root to the node; see addFrames for share. It returns whether fewer nodes are folded now.
function unfold(data, way, part, share) {
  const at = follow(data.nodes, way);
  const to = addFrames(data, part, share);
  const nodes = { ...part.nodes, frame: part.nodes.frame.map((frame) => (frame < 0 ? frame : to[frame])) };
  const from = follow(nodes, way);
  if (at < 0 || from < 0 || nodes.total[from] !== data.nodes.total[at] || part.scale !== data.scale) {
    throw new Error('the profiles have changed');
  }
  const end = endOf(data.nodes.depth, at);
  const fromEnd = endOf(nodes.depth, from);
  const before = foldedIn(data.nodes.frame.slice(at, end));
  const after = foldedIn(nodes.frame.slice(from, fromEnd));
  if (after >= before) return false;
  data.omitted.nodes += after - before;
  for (const [name, column] of Object.entries(data.nodes)) {
    data.nodes[name] = column.slice(0, at + 1).concat(nodes[name].slice(from + 1, fromEnd), column.slice(end));
  }
  return true;
}
