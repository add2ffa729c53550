package v8

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/language"
)

// lineOf returns a line of a function without a file.
func lineOf(name string, start, line int) language.Line {
	return language.Line{Function: name, StartLine: start, Line: line}
}

// TestCodeTable writes tables, and reads the functions and lines of instructions.
func TestCodeTable(t *testing.T) {
	functions := []language.Function{{Name: "middle", StartLine: 20}, {Name: "inner", StartLine: 30}}
	calls := []call{{function: 0, parent: outermost, line: 11}, {function: 1, parent: 0, line: 21}}
	fill := func(exactly bool) *language.Function {
		w := newCodeTable(exactly, functions, calls)
		w.addCall(0, outermost, 10)
		w.addCall(100, 1, 31)
		w.addCall(120, 1, 32)
		w.addCall(140, 0, 22)
		w.addCall(160, outermost, 12)
		w.addCall(180, outermost, 12) // no change
		return &language.Function{Name: "outer", StartLine: 9, Base: ofMachineCode, Table: w.bytes()}
	}
	outer := func(line int) language.Line { return lineOf("outer", 9, line) }
	middle := func(line int) language.Line { return lineOf("middle", 20, line) }
	inner := func(line int) language.Line { return lineOf("inner", 30, line) }
	var i interpreter
	for _, test := range []struct {
		ip       uint64
		exactly  bool
		returned bool
		want     []language.Line
	}{
		{ip: 0, returned: true, want: []language.Line{outer(10)}},
		{ip: 100, returned: true, want: []language.Line{inner(31), middle(21), outer(11)}},
		{ip: 139, returned: true, want: []language.Line{inner(32), middle(21), outer(11)}},
		{ip: 140, returned: true, want: []language.Line{middle(22), outer(11)}},
		{ip: 170, returned: true, want: []language.Line{outer(12)}},
		{ip: 139, exactly: true, want: []language.Line{inner(32), middle(21), outer(11)}},
		{ip: 50, want: []language.Line{outer(0)}},                            // between 10 and the code of the call in 11
		{ip: 110, want: []language.Line{inner(0), middle(21), outer(11)}},    // between 31 and 32
		{ip: 130, want: []language.Line{middle(0), outer(11)}},               // between the call in 21 and 22
		{ip: 150, want: []language.Line{outer(0)}},                           // between the call in 11 and 12
		{ip: 1 << 40, want: []language.Line{outer(0)}},                       // after the last place
		{ip: 1 << 40, exactly: true, want: []language.Line{outer(12)}},       // at the last place
		{ip: 1 << 40, returned: true, want: []language.Line{outer(12)}},      // likewise
		{ip: language.NoIP, returned: true, want: []language.Line{outer(0)}}, // at no place
	} {
		if d := cmp.Diff(test.want, i.Lines(fill(test.exactly), test.ip, test.returned)); d != "" {
			t.Errorf("at %d, exactly %v, returned %v (-want +got):\n%s", test.ip, test.exactly, test.returned, d)
		}
	}
	whole := fill(bycalls)
	for n := range whole.Table {
		cut := *whole
		cut.Table = whole.Table[:n]
		if lines := i.Lines(&cut, 110, true); len(lines) == 0 || lines[len(lines)-1].Function != "outer" {
			t.Errorf("%d bytes of a table: %+v", n, lines)
		}
	}
}

// TestDeepInlining: with endlessly nested inlined calls, a place shows the innermost calls, and the outer function.
func TestDeepInlining(t *testing.T) {
	calls := []call{}
	for n := range maxInlined {
		calls = append(calls, call{parent: n - 1, line: n})
	}
	w := newCodeTable(exact, []language.Function{{Name: "inner", File: "x.js"}}, calls)
	w.addCall(0, maxInlined-1, 7)
	var i interpreter
	lines := i.Lines(&language.Function{Name: "outer", Base: ofMachineCode, Table: w.bytes()}, 3, false)
	if len(lines) != maxShown+1 || lines[0].Line != 7 || lines[1].Line != maxInlined-1 ||
		lines[maxShown].Function != "outer" {
		t.Errorf("%d lines: %+v", len(lines), lines)
	}
	for n := 0; w.addCall(n, outermost, n%2); n++ {
		if n > language.MaxTable {
			t.Fatal("a table has no bound")
		}
	}
}

// array adds an array of words.
func (s *space) array(typ int, elements ...tagged) tagged {
	words := map[int]tagged{8: smi(len(elements))}
	for i, v := range elements {
		words[16+8*i] = v
	}
	return s.object(typ, words, "")
}

// byteArray adds an array of bytes.
func (s *space) byteArray(b []byte) tagged {
	return s.object(1000, map[int]tagged{s.l.ArrayLength: smi(len(b))}, string(b))
}

// shared adds a function without bytecode, in a script.
func (s *space) shared(name string, script tagged) tagged {
	return s.object(s.l.TypeShared, map[int]tagged{
		s.l.SharedData: smi(0), s.l.SharedName: s.latin(name), s.l.SharedScript: script,
		s.l.SharedLiteral &^ 7: 0,
	}, "")
}

// positions encodes a table of positions.
func positions(all ...position) (b []byte) {
	number := func(v int64) {
		for bits := uint64(v<<1) ^ uint64(v>>63); ; bits >>= 7 {
			if bits < 0x80 {
				b = append(b, byte(bits))
				return
			}
			b = append(b, byte(bits)|0x80)
		}
	}
	last, before := entry, int64(0)
	for _, p := range all {
		raw := int64(rawPosition(p))
		number(int64(p.at - last))
		number(raw - before)
		last, before = p.at, raw
	}
	return b
}

func rawPosition(p position) uint64 { return uint64(p.source+1)<<1 | uint64(p.inlined+1)<<31 }

// optimised adds code of 200 bytes with one inlined function, and returns its start.
func (s *space) optimised(outer, inner tagged) (low uint64) {
	inlined := binary.LittleEndian.AppendUint64(nil, rawPosition(position{source: 2, inlined: outermost}))
	inlined = binary.LittleEndian.AppendUint64(inlined, 1) // index of the literal
	deopt := make([]tagged, 12)
	deopt[s.l.DeoptLiterals] = s.array(1001, smi(1), inner|weak)
	deopt[s.l.DeoptShared] = outer
	deopt[s.l.DeoptInlining] = s.byteArray(inlined)
	table := positions(position{8, 2, outermost}, position{20, 4, 0}, position{100, 6, outermost})
	from, at := s.array(1002, deopt...), s.byteArray(table)
	s.mapOf(s.l.TypeStream)
	s.mapOf(s.l.TypeCode)
	for (spaceStart+len(s.b)+s.l.StreamStart)%codeAlignment != 0 {
		s.b = append(s.b, make([]byte, 16)...)
	}
	stream := uint64(spaceStart + len(s.b))
	low = stream + uint64(s.l.StreamStart)
	b := make([]byte, s.l.StreamStart+200)
	s.b = append(s.b, b...)
	code := s.object(s.l.TypeCode, map[int]tagged{
		s.l.CodeDeopt: from, s.l.CodePositions: at, s.l.CodeStart: tagged(low), s.l.CodeSize &^ 7: 200,
	}, "")
	s.b = append(s.b, make([]byte, codePage)...) // memory ends at the end of a page
	binary.LittleEndian.PutUint64(s.b[stream-spaceStart:], uint64(s.mapOf(s.l.TypeStream)))
	binary.LittleEndian.PutUint64(s.b[int(stream)-spaceStart+s.l.StreamCode:], uint64(code))
	return low
}

// TestMachineCode finds code from an instruction in it, and the functions inlined there.
func TestMachineCode(t *testing.T) {
	s := newSpace(t)
	s.b = make([]byte, 3*codePage) // the memory below the code
	script := s.object(s.l.TypeScript, map[int]tagged{
		s.l.ScriptSource: s.latin("a\nb\nc\nd\n"), s.l.ScriptName: s.latin("x.js"), s.l.ScriptLineOffset: smi(0),
	}, "")
	outer, inner := s.shared("outer", script), s.shared("inner", script)
	low := s.optimised(outer, inner)
	i := newInterpreter(&Version{Major: 11, Minor: 3, Layout: s.l}, language.Range{Low: 1, High: 2}, &lines{})
	for _, pc := range []uint64{low, low + 30, low + 199} {
		c, err := i.MachineCode(s, pc, uint64(outer)&pointerMask)
		if err != nil || c.Low != low || c.High != low+200 || c.Stamp == 0 {
			t.Fatalf("at %d: %+v, %v", pc-low, c, err)
		}
		if stamp := i.Stamp(s, low); stamp != c.Stamp {
			t.Errorf("stamp %x and then %x", c.Stamp, stamp)
		}
		want := []language.Line{{Function: "inner", File: "x.js", Line: 3}, {Function: "outer", File: "x.js", Line: 2}}
		if d := cmp.Diff(want, i.Lines(&c.Function, 30, true)); d != "" {
			t.Errorf("lines (-want +got):\n%s", d)
		}
		if got := i.Lines(&c.Function, 120, true); len(got) != 1 || got[0].Line != 4 {
			t.Errorf("lines %+v, want line 4 of outer", got)
		}
	}
	for name, at := range map[string]struct {
		pc uint64
		of tagged
	}{
		"behind":           {low + 200, outer},
		"before":           {low - 1, outer},
		"another function": {low, inner},
		"nowhere":          {8, outer},
		"far away":         {1 << 50, outer},
	} {
		if c, err := i.MachineCode(s, at.pc, uint64(at.of)&pointerMask); err == nil {
			t.Errorf("%s: %+v and no error", name, c)
		}
	}
	if got := i.Stamp(s, low+codeAlignment); got != 0 {
		t.Errorf("stamp %x where no code begins", got)
	}
}

// FuzzMachineCode reads code from memory with arbitrary words.
func FuzzMachineCode(f *testing.F) {
	s := newSpace(f)
	outer, inner := s.shared("outer", 0), s.shared("inner", 0)
	low := s.optimised(outer, inner)
	f.Add(s.b, low-spaceStart, uint64(outer))
	f.Add([]byte(strings.Repeat("\x01\x00\x00\x10\x00\x00\x00\x00", 8)), uint64(1<<20), uint64(1<<21))
	f.Fuzz(func(t *testing.T, data []byte, pc, function uint64) {
		if len(data) == 0 {
			return
		}
		table, err := readLayouts(layoutTable)
		if err != nil {
			t.Fatal(err)
		}
		n := int(pc>>4&3) % len(table.of)
		g := &garbage{data: data}
		i := newInterpreter(&Version{Major: table.versions[n].Major, Layout: table.of[n]}, language.Range{}, &lines{})
		c, err := i.MachineCode(g, pc, function)
		if most := maxCodeBudget + 3*maxRead; g.bytes > most || g.reads > most/readCost {
			t.Errorf("%d bytes in %d reads", g.bytes, g.reads)
		}
		if len(c.Function.Table) > language.MaxTable {
			t.Errorf("%d bytes of lines, %v", len(c.Function.Table), err)
		}
		i.Lines(&c.Function, function, pc&1 != 0)
		made := &language.Function{Table: data, Base: ofMachineCode}
		for _, ip := range []uint64{function, pc, 0, language.NoIP} {
			if lines := i.Lines(made, ip, pc&1 != 0); len(lines) == 0 || len(lines) > maxShown+1 {
				t.Errorf("%d lines", len(lines))
			}
		}
		i.Stamp(g, pc)
	})
}
