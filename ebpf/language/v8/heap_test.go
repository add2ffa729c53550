package v8

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/headwater/headwater/ebpf/language"
)

// space is a fake memory: consecutive objects from spaceStart on. All other addresses are unreadable.
type space struct {
	l    Layout
	b    []byte
	maps map[int]tagged // by type
	read int            // number of bytes that were read
}

const spaceStart = 0x10000000

func newSpace(t testing.TB) *space {
	t.Helper()
	table, err := readLayouts(layoutTable)
	if err != nil {
		t.Fatal(err)
	}
	l, known := table.layout(version{11, 3}, nil)
	if !known {
		t.Fatal("no layout of V8 11.3")
	}
	return &space{l: l, maps: map[int]tagged{}}
}

func (s *space) ReadAt(b []byte, addr int64) (int, error) {
	s.read += len(b)
	if addr < spaceStart || addr >= spaceStart+int64(len(s.b)) {
		return 0, io.EOF
	}
	n := copy(b, s.b[addr-spaceStart:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// ReadEach implements language.Memory.
func (s *space) ReadEach([]uint64, int, []byte) (int, error) { return 0, nil }

// put adds memory and returns its address as the address of an object.
func (s *space) put(b []byte) tagged {
	at := spaceStart + len(s.b)
	s.b = append(s.b, b...)
	s.b = append(s.b, make([]byte, -len(s.b)&31)...)
	return tagged(at | strong)
}

// mapOf returns a map of a type.
func (s *space) mapOf(typ int) tagged {
	if s.maps[typ] == 0 {
		b := make([]byte, 64)
		binary.LittleEndian.PutUint16(b[s.l.MapType:], uint16(typ))
		s.maps[typ] = s.put(b)
	}
	return s.maps[typ]
}

// object adds an object of a type with 64-bit words at offsets, followed by the bytes of tail.
func (s *space) object(typ int, words map[int]tagged, tail string) tagged {
	size := 16
	for at := range words {
		size = max(size, at+8)
	}
	b := make([]byte, size)
	for at, w := range words {
		binary.LittleEndian.PutUint64(b[at:], uint64(w))
	}
	binary.LittleEndian.PutUint64(b, uint64(s.mapOf(typ)))
	return s.put(append(b, tail...))
}

func smi(n int) tagged { return tagged(uint64(uint32(n)) << smiShift) }

// length is the word of a string with its length in the upper half.
func length(n int) map[int]tagged { return map[int]tagged{8: smi(n)} }

func (s *space) latin(text string) tagged {
	return s.object(sequential|oneByte, length(len(text)), text)
}

func (s *space) wide(text string) tagged {
	var b []byte
	units := utf16.Encode([]rune(text))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return s.object(sequential, length(len(units)), string(b))
}

func (s *space) reader() *reader { return newReader(&s.l, s, &lines{}) }

func (s *space) cons(n int, first, second tagged) tagged {
	return s.object(concatenated, map[int]tagged{8: smi(n), s.l.StringFirst: first, s.l.StringSecond: second}, "")
}

// TestText reads strings of every kind.
func TestText(t *testing.T) {
	s := newSpace(t)
	hello, world := s.latin("hello "), s.wide("wörld €𝄞")
	both := s.cons(6+9, hello, world)
	deep := both
	for range 20 {
		deep = s.cons(15, deep, s.latin(""))
	}
	outside := s.put([]byte("outside"))
	tests := map[string]struct {
		v    tagged
		most int
		want string
	}{
		"one byte":   {hello, 100, "hello "},
		"latin":      {s.latin("caf\xe9"), 100, "café"},
		"two bytes":  {world, 100, "wörld €𝄞"},
		"cut":        {world, 3, "wör"},
		"empty":      {s.latin(""), 100, ""},
		"of two":     {both, 100, "hello wörld €𝄞"},
		"of two cut": {both, 8, "hello wö"},
		"of many":    {deep, 100, "hello wörld €𝄞"},
		"thin":       {s.object(thin|oneByte, map[int]tagged{8: smi(6), s.l.StringActual: hello}, ""), 100, "hello "},
		"part": {s.object(sliced, map[int]tagged{8: smi(5), s.l.StringParent: both, s.l.StringOffset: smi(4)}, ""), 100,
			"o wör"},
		"external": {s.object(external|oneByte, map[int]tagged{8: smi(7), s.l.StringExternal: outside - strong}, ""), 100,
			"outside"},
	}
	for name, test := range tests {
		m := s.reader()
		if got := m.readText(test.v, test.most); got != test.want || m.err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, m.err, test.want)
		}
	}
}

// TestBadText reads objects that are not strings, and strings that are too large.
func TestBadText(t *testing.T) {
	s := newSpace(t)
	loop := s.cons(100, 0, 0)
	off := int(loop) - strong - spaceStart
	binary.LittleEndian.PutUint64(s.b[off+s.l.StringFirst:], uint64(loop))
	binary.LittleEndian.PutUint64(s.b[off+s.l.StringSecond:], uint64(loop))
	for name, v := range map[string]tagged{
		"loop":          loop,
		"no string":     s.object(s.l.TypeScript, nil, ""),
		"small integer": smi(1),
		"nowhere":       1<<40 | strong,
		"uncached":      s.object(external|oneByte|uncached, length(3), ""),
		"beyond": s.object(sliced,
			map[int]tagged{8: smi(5), s.l.StringParent: s.latin("abc"), s.l.StringOffset: smi(4)}, ""),
		"negative": s.object(sliced,
			map[int]tagged{8: smi(5), s.l.StringParent: s.latin("abc"), s.l.StringOffset: smi(-4)}, ""),
		"too long": s.object(sequential|oneByte, length(1<<20), "abc"),
	} {
		m := s.reader()
		if got := m.readText(v, 1000); m.err == nil {
			t.Errorf("%s: %q and no error", name, got)
		}
	}
}

// TestLines checks lines against JavaScript's definition.
func TestLines(t *testing.T) {
	s := newSpace(t)
	source := "a\nb\rc\r\nd\n\ne\u2028f\u2029g"
	m := s.reader()
	got := m.script(s.object(s.l.TypeScript, map[int]tagged{
		s.l.ScriptSource: s.wide(source), s.l.ScriptName: s.latin("file:///x.js"),
	}, ""))
	if m.err != nil || got.file != "/x.js" {
		t.Fatalf("%+v, %v", got, m.err)
	}
	want := map[rune]int{'a': 1, 'b': 2, 'c': 3, 'd': 4, 'e': 6, 'f': 7, 'g': 8}
	for at, c := range []rune(source) {
		if line, ok := want[c]; ok && got.lineOf(at) != line {
			t.Errorf("%c is in line %d, want %d", c, got.lineOf(at), line)
		}
	}
	var none *script
	if got.lineOf(absent) != 0 || none.lineOf(3) != 0 {
		t.Error("a line of nothing")
	}
}

// TestManyLines: a source with too many lines has no lines, and is not read to its end.
func TestManyLines(t *testing.T) {
	s := newSpace(t)
	text := strings.Repeat("\n", 4*maxLines)
	source := s.latin(text)
	s.read = 0
	got := s.reader().script(s.object(s.l.TypeScript, map[int]tagged{
		s.l.ScriptSource: source, s.l.ScriptName: s.latin("x.js"),
	}, ""))
	if got == nil || got.file != "x.js" || got.lineOf(3) != 0 || s.read > 2*maxLines {
		t.Errorf("%+v after %d bytes", got, s.read)
	}
}

// TestLinesOnce: a source is read once in a period, and within a limit.
func TestLinesOnce(t *testing.T) {
	var x lines
	reads := 0
	read := func() []int { reads++; return []int{3} }
	now := time.Now()
	for n, step := range []struct {
		script tagged
		after  time.Duration
		want   int // number of reads so far
	}{
		{1, 0, 1}, {1, 0, 1}, {2, 0, 2}, {1, linesWhile, 3}, {3, 0, 4}, {4, 0, 4}, {1, 0, 4}, {4, linesWhile, 5},
	} {
		now = now.Add(step.after)
		x.linesOf(source{script: step.script, length: maxRead/2 - 1}, now, read)
		if reads != step.want {
			t.Errorf("step %d: %d reads, want %d", n, reads, step.want)
		}
	}
}

// TestLinesBound: the cache is bounded, and a process with fewer ends than another process gets room.
func TestLinesBound(t *testing.T) {
	var x lines
	now := time.Now()
	one, other := &space{}, &space{}
	of := func(memory language.Memory, script, ends int) (read bool) {
		x.linesOf(source{memory: memory, script: tagged(script)}, now, func() []int { read = true; return make([]int, ends) })
		return read
	}
	for n := range 10 {
		of(one, n, maxKept/8)
	}
	if x.kept > maxKept || x.kept < maxKept/8*7 || of(one, 0, 1) || !of(one, 9, maxKept/8) {
		t.Errorf("%d ends are kept", x.kept)
	}
	if of(other, 0, maxKept/4); of(other, 0, 1) || x.kept > maxKept/4+1 {
		t.Errorf("%d ends are kept of another process", x.kept)
	}
}

// TestLinesOfOthers: a process whose memory hangs, or is too large to read, does not affect the lines of another
// process.
func TestLinesOfOthers(t *testing.T) {
	var x lines
	now := time.Now()
	one, other := &space{}, &space{}
	go x.linesOf(source{memory: one, script: 1}, now, func() []int { select {} })
	x.linesOf(source{memory: one, script: 2, length: maxRead + 1}, now, func() []int { return nil })
	found := make(chan []int)
	go func() { found <- x.linesOf(source{memory: other}, now, func() []int { return []int{3} }) }()
	select {
	case ends := <-found:
		if !slices.Equal(ends, []int{3}) {
			t.Errorf("ends %v", ends)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for another process")
	}
}

// TestSourcePositions decodes the start of a table that node 20 made, whose characters are the characters of the calls
// in the source, and the tables that node 20 and 26 made of café in testdata/chain.js: the function, return, the sum,
// the call, and the end of the line.
func TestSourcePositions(t *testing.T) {
	tables, err := readLayouts(layoutTable)
	if err != nil {
		t.Fatal(err)
	}
	decode := func(v version, table []byte) (all []position) {
		l, _ := tables.layout(v, nil)
		l.positions(table, func(p position) bool {
			all = append(all, p)
			return len(all) < 100
		})
		return all
	}
	node20, node26 := version{11, 3}, version{14, 6}
	café := []position{
		{-1, 226, outermost}, {0, 237, outermost}, {5, 251, outermost}, {9, 244, outermost}, {13, 256, outermost},
	}
	for name, test := range map[string]struct {
		version version
		table   []byte
		want    []position
	}{
		"two": {
			node20, []byte{0x03, 0x88, 0x07, 0x81, 0x02, 0x40}, []position{{0, 225, outermost}, {128, 241, outermost}},
		},
		"node 20": {node20, []byte("\x01\x8c\x07\x02\x2c\x0b\x38\x09\x1b\x08\x30"), café},
		"node 26": {node26, []byte("\x02\x8c\x07\x07\x2c\x16\x38\x12\x1b\x13\x30"), café},
		"nothing": {node20, nil, nil},
		"no end":  {node20, []byte(strings.Repeat("\xff", 40)), nil},
		"cut":     {node20, []byte{0x03, 0x88, 0x07, 0x81}, []position{{0, 225, outermost}}},
	} {
		if got := decode(test.version, test.table); !slices.Equal(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestFrame decodes frames from their words.
func TestFrame(t *testing.T) {
	i := newInterpreter(&Version{Major: 11, Minor: 3, Layout: newSpace(t).l}, language.Range{Low: 1, High: 2}, &lines{})
	if err := i.spec.Check(); err != nil {
		t.Error(err)
	}
	const context, bytecode, shared, code = 0x1001, 0x2001, 0x3000, 0x4001
	interpreted := language.Frame{Code: shared, IP: 7, Proved: true}
	notProved := language.Frame{Code: shared, IP: 7}
	compiled := language.Frame{Code: shared, IP: language.NoIP, Made: true}
	hidden := language.Frame{Hidden: true}
	at7 := uint64(smi(53 + 7))
	for name, test := range map[string]struct {
		words []uint64
		want  language.Frame
	}{
		"interpreted":      {[]uint64{context, bytecode, at7, shared, bytecode}, interpreted},
		"compiled since":   {[]uint64{context, bytecode, at7, shared, code}, notProved},
		"compiled":         {[]uint64{context, bytecode, 0x5001, shared, code}, compiled},
		"of V8's own kind": {[]uint64{22, bytecode, at7, shared, bytecode}, hidden},
		"builtin":          {[]uint64{context, bytecode, at7, shared, uint64(smi(3))}, hidden},
		"nothing":          {[]uint64{0, 0, 0, 0, 0}, hidden},
	} {
		if got := i.Frame(append(test.words, 3)); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestNoOffset: the position of a frame in its function may be unknown.
func TestNoOffset(t *testing.T) {
	f := language.Function{Table: language.AppendLine(language.AppendLine(nil, 4, 10), 7, 11)}
	var i interpreter
	for ip, want := range []int{0, 0, 0, 0, 10, 10, 10, 11, 11} {
		if got := i.Lines(&f, uint64(ip), false)[0].Line; got != want {
			t.Errorf("line %d at %d, want %d", got, ip, want)
		}
	}
	if got := i.Lines(&f, language.NoIP, false)[0].Line; got != 0 {
		t.Errorf("line %d where there is no offset", got)
	}
}

// garbage is memory with arbitrary words: a read at any address repeats the bytes of data.
type garbage struct {
	data  []byte
	bytes int
	reads int
}

func (g *garbage) ReadAt(b []byte, addr int64) (int, error) {
	g.reads++
	g.bytes += len(b)
	at := int(uint64(addr) % uint64(len(g.data)))
	for n := 0; n < len(b); at = 0 {
		n += copy(b[n:], g.data[at:])
	}
	return len(b), nil
}

// ReadEach implements language.Memory.
func (g *garbage) ReadEach(addrs []uint64, size int, b []byte) (int, error) { return 0, nil }

// FuzzFunction reads functions from memory with arbitrary words.
func FuzzFunction(f *testing.F) {
	s := newSpace(f)
	s.mapOf(s.l.TypeShared)
	f.Add(s.b, uint64(spaceStart))
	f.Add([]byte(strings.Repeat("\x01\x00\x00\x10\x00\x00\x00\x00", 8)), uint64(1<<20))
	f.Fuzz(func(t *testing.T, data []byte, address uint64) {
		if len(data) == 0 {
			return
		}
		table, err := readLayouts(layoutTable)
		if err != nil {
			t.Fatal(err)
		}
		n := int(address>>4&3) % len(table.of)
		g := &garbage{data: data}
		i := newInterpreter(&Version{Major: table.versions[n].Major, Layout: table.of[n]}, language.Range{}, &lines{})
		fn, err := i.Function(g, &language.CodeObject{Address: address})
		if most := maxBudget + 4*maxSource; g.bytes > most || g.reads > most/readCost {
			t.Errorf("%d bytes in %d reads", g.bytes, g.reads)
		}
		if len(fn.Table) > language.MaxTable || len(fn.Name) > 4*maxName || len(fn.File) > 4*maxFile {
			t.Errorf("%d bytes of name, %d of file, %d of lines, %v", len(fn.Name), len(fn.File), len(fn.Table), err)
		}
		i.Lines(&fn, address, false)
	})
}
