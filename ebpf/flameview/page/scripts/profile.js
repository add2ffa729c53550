// Profile is the data that trie.Tree describes: texts, frames, functions, and the nodes as they came. A function is
// all frames of one name and file.
class Profile {
  constructor(data) {
    this.data = data;
    this.total = data.nodes.total[0];
    this.all = this.total; // what the sums of functions are of
    this.lower = []; // the texts in lower case, when something was searched for
    this.readFrames();
  }

  // readFrames reads the frames of the data, and again when there are more.
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

  // binary is the file of a frame's code, '' if there is none.
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

  // label names a function: its binary is added where others have its name too. find is the reverse.
  label(fn) {
    this.readNames();
    const name = this.name(fn);
    return this.byName.get(name).length > 1 ? name + ' [' + this.binary(this.first[fn]) + ']' : name;
  }

  // find returns the function of a label, -1 if there is none.
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

  // matches returns for each frame whether its function, file or binary has the text, or matches it as a regular
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

  // textsWith returns for each text of the data whether it has the text, or matches it as a regular expression.
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

  // value says how much n is, in the profile's unit.
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

// patternOf returns a regular expression of a text, null if it is none or would find no more than the text itself.
function patternOf(text) {
  if (!/[\\^$.*+?()[\]{}|]/.test(text)) return null;
  try {
    return new RegExp(text, 'i');
  } catch (error) {
    return null;
  }
}
