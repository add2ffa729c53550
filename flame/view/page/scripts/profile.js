// Profile is the data of trie.Tree: texts, frames, functions, and the nodes as received. A function is all frames of
// one name and file.
class Profile {
  constructor(data) {
    this.data = data;
    this.total = data.nodes.total[0];
    this.all = this.total; // the value of which the sums of functions are a part
    this.lower = []; // the texts in lower case, after the first search
    this.readFrames();
  }

  // readFrames reads the frames of the data. It is called again after frames were added.
  readFrames() {
    const { data } = this;
    this.byName = null;
    this.of = data.frames.of;
    this.functions = data.functions.self.length;
    this.first = new Int32Array(this.functions).fill(-1); // a frame of each function
    for (let i = this.of.length - 1; i >= 0; i--) this.first[this.of[i]] = i;
    this.sums = data.functions;
  }

  text(i) {
    return this.data.strings[i];
  }
  frameName(frame) {
    return this.text(this.data.frames.name[frame]);
  }
  kind(frame) {
    return this.data.kinds.name[this.data.frames.kind[frame]];
  }
  inlined(frame) {
    return this.data.frames.inlined[frame] === 1;
  }
  file(frame) {
    return this.text(this.data.frames.file[frame]);
  }

  // binary returns the file of a frame's code, or '' if there is none.
  binary(frame) {
    const mapping = frame < 0 ? -1 : this.data.frames.mapping[frame];
    return mapping < 0 ? '' : this.text(this.data.mappings.file[mapping]);
  }

  build(frame) {
    const mapping = frame < 0 ? -1 : this.data.frames.mapping[frame];
    return mapping < 0 ? '' : this.text(this.data.mappings.build[mapping]);
  }

  name(fn) {
    return this.frameName(this.first[fn]);
  }

  // label returns the label of a function: its name, with its binary if several functions have the name. find is the
  // reverse.
  label(fn) {
    this.readNames();
    const name = this.name(fn);
    return this.byName.get(name).length > 1 ? name + ' [' + this.binary(this.first[fn]) + ']' : name;
  }

  // find returns the function with a label, or -1 if there is none.
  find(label) {
    this.readNames();
    const same = this.byName.get(label);
    if (same) return same[0];
    const cut = label.lastIndexOf(' [');
    const candidates = (cut > 0 && this.byName.get(label.slice(0, cut))) || [];
    const binary = label.slice(cut + 2, -1);
    const found = candidates.find((fn) => this.binary(this.first[fn]) === binary);
    return found === undefined ? -1 : found;
  }

  readNames() {
    if (this.byName) return;
    this.byName = new Map();
    for (let fn = 0; fn < this.functions; fn++) {
      const name = this.name(fn);
      const same = this.byName.get(name);
      if (same) same.push(fn);
      else this.byName.set(name, [fn]);
    }
  }

  // matches returns, by frame, whether its function, file or binary contains the text, or matches it as a regular
  // expression.
  matches(text) {
    const { frames, mappings } = this.data;
    const has = this.textsWith(text);
    const out = new Uint8Array(frames.name.length);
    for (let i = 0; i < out.length; i++) {
      const mapping = frames.mapping[i];
      out[i] = has[frames.name[i]] | has[frames.file[i]] | (mapping < 0 ? 0 : has[mappings.file[mapping]]);
    }
    return out;
  }

  // textsWith returns, by text of the data, whether it contains the given text, or matches it as a regular expression.
  textsWith(text) {
    const { strings } = this.data;
    const { lower } = this;
    for (let i = lower.length; i < strings.length; i++) lower.push(strings[i].toLowerCase());
    const wanted = text.toLowerCase();
    const pattern = patternOf(text);
    const out = new Uint8Array(strings.length);
    for (let i = 0; i < out.length; i++) {
      if (strings[i] === '') continue;
      if (lower[i].includes(wanted) || (pattern !== null && pattern.test(strings[i]))) out[i] = 1;
    }
    return out;
  }

  // value returns n as text, in the profile's unit.
  value(n) {
    const v = n * this.data.scale;
    if (v === 0) return '0';
    switch (this.data.unit) {
      case 'nanoseconds':
        if (v >= 1e9) return (v / 1e9).toFixed(2) + ' s';
        return v >= 1e6 ? (v / 1e6).toFixed(0) + ' ms' : (v / 1e3).toFixed(0) + ' µs';
      case 'bytes':
        if (v >= 1 << 20) return (v / (1 << 20)).toFixed(1) + ' MiB';
        return v >= 1024 ? (v / 1024).toFixed(1) + ' KiB' : v + ' bytes';
      default:
        return count(v);
    }
  }
}

// patternOf returns the regular expression of a text, or null if it is invalid or would only match the text itself.
function patternOf(text) {
  if (!/[\\^$.*+?()[\]{}|]/.test(text)) return null;
  try {
    return new RegExp(text, 'i');
  } catch (error) {
    return null;
  }
}
