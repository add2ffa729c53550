// What a server has folded is asked for when somebody zooms to it, and put into the data.

// Ids numbers keys, those that the data has first.
class Ids {
  constructor(keys) {
    this.ids = new Map();
    for (const key of keys) if (!this.ids.has(key)) this.ids.set(key, this.ids.size);
  }

  // of returns the number of a key. add is called if it is new.
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

// What is the same in the data and in a part has the same key: its texts and numbers.
const mappingKey = (data, i) =>
  i < 0 ? '' : data.strings[data.mappings.file[i]] + '\0' + data.strings[data.mappings.build[i]];
const functionKey = ({ strings, frames, mappings }, i) =>
  strings[frames.name[i]] + '\0' + (frames.mapping[i] < 0 ? '' : strings[mappings.file[frames.mapping[i]]]);
const frameKey = (data, i) => {
  const { name, file, start, mapping, kind, inlined } = data.frames;
  const texts = [data.strings[name[i]], data.strings[file[i]], mappingKey(data, mapping[i])];
  return [...texts, start[i], kind[i], inlined[i]].join('\0');
};

// addFrames puts the frames of a part into the data, and returns by frame of the part which one of the data it is. What
// the part says of functions counts times share: 1 if it is of all samples, 0 if it is not.
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

// wholeTree reads the tree that a file has with what is folded: compressed JSON in base64. null if it has none.
async function wholeTree() {
  const packed = document.getElementById('flame-whole');
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).json();
}

// endOf returns where the subtree of a node ends.
function endOf(depths, node) {
  let end = node + 1;
  while (end < depths.length && depths[end] > depths[node]) end++;
  return end;
}

// follow returns the node that a way of frames leads to from the root, -1 if there is none.
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

// unfold puts what a part, an answer of api/tree below a node, has below that node in place of what the data has there.
// way has the frames from the root to the node, share is as for addFrames. It returns whether less is folded now.
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
