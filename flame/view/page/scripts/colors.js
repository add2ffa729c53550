const KINDS = {
  kernel: 'kernel',
  native: 'native',
  inlined: 'inlined',
  runtime: 'language runtime',
  jit: 'JIT code',
  unnamed: 'no name',
  other: 'process or group',
  small: 'folded',
};
const NAMED_GROUPS = 6; // binaries or packages with their own colour

// A colouring puts nodes into groups. groups are {key, label, color, hatched}, where color is the name of a variable of
// the style sheet; of returns the group of a node; legend holds the groups to list.

// byOrigin colours frames by kind.
function byOrigin(profile) {
  const names = profile.data.kinds.name;
  const root = names.indexOf('other');
  const small = names.indexOf('small');
  return {
    title: 'Kinds of frames, with their share of self time',
    groups: names.map((key) => ({
      key,
      label: KINDS[key],
      color: key,
      hatched: key === 'unnamed',
      listed: key !== 'other',
    })),
    of: (tree, node) => {
      const frame = tree.frame(node);
      return frame >= 0 ? profile.data.frames.kind[frame] : frame === -1 ? root : small;
    },
  };
}

// byText colours frames by a text: the texts with most self time have their own colours.
function byText(profile, title, none, textOf) {
  const weights = new Map();
  const { frames } = profile.data;
  const texts = frames.name.map((_, frame) => {
    const text = textOf(frame);
    if (text) weights.set(text, (weights.get(text) || 0) + frames.self[frame]);
    return text;
  });
  const named = [...weights.keys()]
    .sort((a, b) => weights.get(b) - weights.get(a) || (a < b ? -1 : 1))
    .slice(0, NAMED_GROUPS);
  const groups = named.map((key, i) => ({ key, label: key, color: 'group' + i, listed: true }));
  const rest = groups.push({ key: '*', label: 'others', color: 'rest', listed: true }) - 1;
  const nothing = groups.push({ key: '-', label: none, color: 'other', listed: true }) - 1;
  const small = groups.push({ key: 'small', label: KINDS.small, color: 'small', listed: true }) - 1;
  const numbers = new Map(named.map((text, i) => [text, i]));
  const byFrame = texts.map((text) => (!text ? nothing : numbers.has(text) ? numbers.get(text) : rest));
  return {
    title,
    groups,
    of: (tree, node) => {
      const frame = tree.frame(node);
      return frame >= 0 ? byFrame[frame] : frame === -1 ? nothing : small;
    },
  };
}

const byBinary = (profile) =>
  byText(profile, 'Binaries, with their share of self time', 'no binary', (frame) => base(profile.binary(frame)));

const byPackage = (profile) =>
  byText(
    profile,
    'Packages, with their share of self time',
    'no package',
    (frame) =>
      packageOf(profile.frameName(frame), profile.file(frame), profile.kind(frame)) || base(profile.binary(frame)),
  );

// groupsOf returns the group of each node of a tree.
function groupsOf(colouring, tree) {
  const out = new Uint8Array(tree.length);
  for (let i = 0; i < out.length; i++) out[i] = colouring.of(tree, i);
  return out;
}

// groupSums adds up self of each group, and the total of the samples with a frame of the group.
function groupSums(tree, groups, length) {
  const out = { self: new Array(length).fill(0), total: new Array(length).fill(0) };
  const until = new Array(length).fill(0);
  for (let i = 1; i < tree.length; i++) {
    out.self[groups[i]] += tree.self(i);
    if (i < until[groups[i]]) continue;
    out.total[groups[i]] += tree.totalOf(i);
    until[groups[i]] = tree.end[i];
  }
  return out;
}

// Palette reads the colours of the style sheet, which has a light and a dark set.
class Palette {
  constructor(root) {
    this.probe = element('span', { hidden: true });
    root.append(this.probe);
    this.known = new Map();
  }

  // color returns the value of a variable, in a form for canvases.
  color(name) {
    let color = this.known.get(name);
    if (!color) {
      this.probe.style.color = 'var(--' + name + ')';
      color = getComputedStyle(this.probe).color;
      this.known.set(name, color);
    }
    return color;
  }

  forget() {
    this.known.clear();
  }

  // hatched returns the pattern of frames without a name.
  hatched() {
    let pattern = this.known.get('*');
    if (!pattern) {
      const tile = element('canvas', { width: 8, height: 8 });
      const pen = tile.getContext('2d');
      pen.fillStyle = this.color('unnamed');
      pen.fillRect(0, 0, 8, 8);
      pen.strokeStyle = this.color('hatch');
      pen.lineWidth = 1.5;
      for (const at of [-8, 0, 8]) {
        pen.moveTo(at, 8);
        pen.lineTo(at + 8, 0);
      }
      pen.stroke();
      pattern = pen.createPattern(tile, 'repeat');
      this.known.set('*', pattern);
    }
    return pattern;
  }
}
