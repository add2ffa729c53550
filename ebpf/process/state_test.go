package process

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// countedReferences counts references to executables.
type countedReferences map[*Executable]int

func (c countedReferences) keepExecutable(e *Executable) {
	if e != nil {
		c[e]++
	}
}

func (c countedReferences) release(e *Executable) {
	if e == nil {
		return
	}
	if c[e]--; c[e] == 0 {
		delete(c, e)
	}
}

// fileAt returns the mapping of a file without text, n pages long.
func fileAt(start uint64, n uint64, inode uint64) procfs.Mapping {
	return procfs.Mapping{Start: start, End: start + n<<12, Inode: inode, Path: fmt.Sprintf("/file%d", inode)}
}

// newFile returns an executable without text, to which the caller has a reference.
func newFile(s *state, inode uint64) *Executable {
	e := &Executable{Path: fmt.Sprintf("/file%d", inode)}
	e.image.Store(newImage(e, nil))
	s.refs.keepExecutable(e)
	return e
}

// commandText describes a command.
func commandText(c Command) string {
	switch c := c.(type) {
	case scan:
		return fmt.Sprintf("scan %d then %T", c.pid, c.then)
	case open:
		return fmt.Sprintf("open %s of %d", c.mapping.Path, c.pid)
	case attach:
		return fmt.Sprintf("attach %d last=%v", c.process.PID, c.last)
	}
	return fmt.Sprintf("%T", c)
}

// text describes the processes, one on each line.
func (s *state) text() string {
	var lines []string
	for pid, p := range s.processes {
		s.mergeMappings(p)
		line := fmt.Sprintf("%d %s", pid, p.comm)
		for _, m := range p.mappings {
			line += fmt.Sprintf(" %x-%x", m.start, m.end)
		}
		if p.ended != 0 {
			line += fmt.Sprintf(" ended %d", p.ended)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestEvents applies events one after another, and compares the commands that result from each event, and the state at
// the end.
func TestEvents(t *testing.T) {
	anonymous := func(start uint64) procfs.Mapping { return procfs.Mapping{Start: start, End: start + 0x1000} }
	maps := func(time uint64, start uint64) mapped { return mapped{time: time, pid: 7, mapping: anonymous(start)} }
	found := func(pid uint32, comm string, all ...procfs.Mapping) func(*state) Event {
		return func(s *state) Event {
			e := scanned{scan: s.scanCommand(pid, nil), comm: comm}
			for _, m := range all {
				e.mappings = append(e.mappings, located{Mapping: m})
			}
			return e
		}
	}
	for _, test := range []struct {
		name   string
		events []any // Event, or func(*state) Event
		want   [][]string
		known  string
	}{
		{"a mapping of an unknown process", []any{maps(1, 0x1000)},
			[][]string{{"scan 7 then process.mapped"}}, ""},
		{"a mapping of a process that is not in /proc",
			[]any{mapped{time: 1, pid: 7, mapping: anonymous(0x1000), scanned: true}},
			[][]string{nil}, "7  1000-2000"},
		{"a file", []any{execed{1, 7, "a"}, mapped{time: 2, pid: 7, mapping: fileAt(0x1000, 1, 5)}},
			[][]string{nil, {"open /file5 of 7"}}, "7 a"},
		{"an exec", []any{execed{1, 7, "a"}, maps(2, 0x1000), execed{3, 7, "b"}, maps(2, 0x3000)},
			[][]string{nil, nil, nil, nil}, "7 b"},
		{"a fork", []any{execed{1, 7, "a"}, maps(2, 0x1000), forked{time: 3, parent: 7, pid: 8}},
			[][]string{nil, nil, nil}, "7 a 1000-2000\n8 a 1000-2000"},
		{"a fork that is reported late", []any{execed{5, 8, "b"}, forked{time: 3, parent: 7, pid: 8}},
			[][]string{nil, nil}, "8 b"},
		{"a fork of an unknown process", []any{forked{time: 3, parent: 7, pid: 8}},
			[][]string{{"scan 7 then process.forked"}}, ""},
		{"a fork of a process that is not in /proc", []any{forked{time: 3, parent: 7, pid: 8, scanned: true}},
			[][]string{{"scan 8 then <nil>"}}, ""},
		{"an end", []any{execed{1, 7, "a"}, exited{2, 7}, exited{3, 7}, exited{3, 9}},
			[][]string{nil, nil, nil, nil}, "7 a ended 2"},
		{"an end that is reported late", []any{execed{5, 7, "a"}, exited{2, 7}},
			[][]string{nil, nil}, "7 a"},
		{"lost records", []any{execed{1, 7, "a"}, execed{1, 8, "b"}, recordsLost{alive: []uint32{8, 9}}},
			[][]string{nil, nil, {"scan 8 then <nil>", "scan 9 then <nil>"}}, "7 a ended 1\n8 b"},
		{"a name", []any{execed{1, 7, "a"}, renamed{2, 7, "b"}, renamed{0, 7, "c"}, renamed{2, 8, "d"}},
			[][]string{nil, nil, nil, nil}, "7 b"},
		{"what /proc says", []any{found(7, "a", anonymous(0x1000), anonymous(0x3000))},
			[][]string{nil}, "7 a 1000-2000 3000-4000"},
		{"what /proc says replaces what was known",
			[]any{execed{1, 7, "a"}, maps(2, 0x1000), found(7, "b", anonymous(0x3000))},
			[][]string{nil, nil, nil}, "7 a 3000-4000"},
		{"a process that /proc does not have", []any{execed{1, 7, "a"}, maps(2, 0x1000), found(7, "")},
			[][]string{nil, nil, nil}, "7 a 1000-2000"},
	} {
		s := newState(countedReferences{})
		for i, e := range test.events {
			event, ok := e.(Event)
			if !ok {
				event = e.(func(*state) Event)(&s)
			}
			var got []string
			for _, c := range event.apply(&s) {
				got = append(got, commandText(c))
			}
			if !slices.Equal(got, test.want[i]) {
				t.Errorf("%s, event %d: %q is to be done, want %q", test.name, i+1, got, test.want[i])
			}
		}
		if got := s.text(); got != test.known {
			t.Errorf("%s: known is\n%s\nwant\n%s", test.name, got, test.known)
		}
	}
}

// TestReportedWhileScanned: a mapping that is reported while /proc is read has precedence over the mappings read. A
// process that runs another program by then keeps that program's mappings.
func TestReportedWhileScanned(t *testing.T) {
	refs := countedReferences{}
	s := newState(refs)
	execed{1, 7, "a"}.apply(&s)
	before := newFile(&s, 5)
	opened{mapped{time: 2, pid: 7, mapping: fileAt(0x1000, 1, 5), exe: before}, s.processes[7]}.apply(&s)
	reading, late := s.scanCommand(7, nil), s.scanCommand(7, nil)
	during := newFile(&s, 6)
	opened{mapped{time: 3, pid: 7, mapping: fileAt(0x3000, 1, 6), exe: during}, s.processes[7]}.apply(&s)
	old := newFile(&s, 7)
	scanned{scan: reading, mappings: []located{{Mapping: fileAt(0x3000, 2, 7), exe: old}}}.apply(&s)
	if got, want := s.text(), "7 a 3000-4000 4000-5000"; got != want {
		t.Errorf("known is %q, want %q", got, want)
	}
	if m, _ := s.processes[7].mappings.findMapping(0x3000); m.exe != nil && m.exe != during {
		t.Errorf("%v is mapped, want what was reported", m.exe)
	}
	execed{4, 7, "b"}.apply(&s)
	other := newFile(&s, 8)
	scanned{scan: late, mappings: []located{{Mapping: fileAt(0x9000, 1, 8), exe: other}}}.apply(&s)
	if got, want := s.text(), "7 b"; got != want {
		t.Errorf("known is %q, want %q", got, want)
	}
	forgetAll(&s)
	for e, n := range refs {
		if n != 0 {
			t.Errorf("%d references to %v are left", n, e)
		}
	}
}

// forgetAll ends all processes.
func forgetAll(s *state) {
	recordsLost{}.apply(s)
	s.reapBefore(1 << 63)
}

// TestAttachments: a runtime whose code may be in waiting memory is asked for the code, again after a pause, but not
// forever. Its code is one mapping.
func TestAttachments(t *testing.T) {
	refs := countedReferences{}
	s := newState(refs)
	execed{1, 7, "java"}.apply(&s)
	p := s.processes[7]
	a := &attachment{exe: newFile(&s, 5)}
	p.attached = []*attachment{a}
	memory := procfs.Mapping{Start: 0x10000, End: 0x20000}
	mapped{time: 2, pid: 7, mapping: memory}.apply(&s)
	mapped{time: 2, pid: 7, mapping: procfs.Mapping{Start: 0x50000, End: 0x51000}}.apply(&s)
	now := time.Unix(1000, 0)
	ask := func(after time.Duration, want ...string) (asked []Command) {
		t.Helper()
		now = now.Add(after)
		var got []string
		for _, c := range s.attachments(now) {
			asked, got = append(asked, c), append(got, commandText(c))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q is to be done, want %q", got, want)
		}
		return asked
	}
	first := ask(0, "attach 7 last=false")
	ask(time.Second) // the runtime is being asked
	attached{attach: first[0].(attach), retry: true}.apply(&s)
	second := ask(0, "attach 7 last=false")
	attached{attach: second[0].(attach), retry: true}.apply(&s)
	ask(retryAttach / 2)
	third := ask(retriesAttach, "attach 7 last=true")
	if got := s.text(); got != "7 java" {
		t.Errorf("while the code is not known, known is %q", got)
	}
	code := &JITCode{PID: 7, exe: newFile(&s, 6), low: 0x10000, high: 0x40000}
	attached{attach: third[0].(attach), code: code}.apply(&s)
	if got, want := s.text(), "7 java 10000-40000 50000-51000"; got != want {
		t.Errorf("known is %q, want %q", got, want)
	}
	if !reflect.DeepEqual(p.code, []*JITCode{code}) || p.waits() {
		t.Errorf("code %v, waits %v", p.code, p.waits())
	}
	forgetAll(&s)
	if refs[code.exe] != 0 {
		t.Errorf("%d references to the code are left", refs[code.exe])
	}
}

// FuzzState lets processes start, map files, run programs and end in any order, with reads of /proc that are answered
// late. The state must be sound after each event, and must keep no part of forgotten processes.
func FuzzState(f *testing.F) {
	f.Add([]byte{0, 1, 0, 5, 4, 1, 1, 3, 2, 1, 2, 0, 3, 0, 3, 0, 6, 0, 0, 0})
	f.Add([]byte{1, 1, 1, 1, 1, 1, 2, 3, 6, 0, 0, 0, 0, 1, 0, 0, 6, 0, 0, 9, 2, 1, 0, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		refs := countedReferences{}
		s := newState(refs)
		var pending []Command
		time := uint64(1)
		for script = script[:min(len(script), 4096)]; len(script) >= 4; script = script[4:] {
			kind, pid, at, size := script[0]%8, uint32(script[1]%4)+1, uint64(script[2]%32)<<12, uint64(script[3]%8)+1
			time += uint64(binary.LittleEndian.Uint16(script[2:]) % 3)
			var e Event
			switch kind {
			case 0:
				e = execed{time, pid, "a"}
			case 1:
				m := mapped{time: time, pid: pid, mapping: fileAt(at, size, size)}
				if script[1]&4 != 0 {
					m.exe = newFile(&s, size)
				}
				e = m
			case 2:
				e = forked{time: time, parent: pid, pid: uint32(size)}
			case 3:
				e = exited{time, pid}
			case 4:
				e = mapped{time: time, pid: pid, mapping: procfs.Mapping{Start: at, End: at + size<<12}}
			case 5:
				s.reapBefore(time - min(time, 2))
				continue
			case 6:
				if len(pending) == 0 {
					continue
				}
				n := int(size) % len(pending)
				e = answer(&s, pending[n], at, size)
				pending = slices.Delete(pending, n, n+1)
			case 7:
				pending = append(pending, s.scanCommand(pid, nil))
				continue
			}
			pending = append(pending, e.apply(&s)...)
			checkState(t, &s)
		}
		for len(pending) > 0 {
			pending = append(pending[1:], answer(&s, pending[0], 0, 0).apply(&s)...)
		}
		forgetAll(&s)
		if len(s.processes) != 0 {
			t.Errorf("%d processes are left", len(s.processes))
		}
		for e, n := range refs {
			if n != 0 {
				t.Errorf("%d references to %v are left", n, e)
			}
		}
	})
}

// answer returns the event of a command. With size 0, the command finds no file.
func answer(s *state, c Command, at, size uint64) Event {
	switch c := c.(type) {
	case open:
		e := opened{mapped: c.mapped, process: c.process}
		if size > 0 {
			e.exe = newFile(s, c.mapping.Inode)
		}
		return e
	case scan:
		e := scanned{scan: c}
		for i := range size {
			m := fileAt(at+i<<13, 1, i)
			e.mappings = append(e.mappings, located{Mapping: m, exe: newFile(s, i)})
		}
		return e
	}
	panic(fmt.Sprintf("%T", c))
}

// checkState reports mappings that are out of order, and negative reference counts.
func checkState(t *testing.T, s *state) {
	t.Helper()
	for pid, p := range s.processes {
		if p.PID != pid {
			t.Fatalf("process %d is known as %d", p.PID, pid)
		}
		ms := slices.Clone(p.mappings)
		if !ms.disjoint() || !slices.Equal(ms, p.mappings) {
			t.Fatalf("process %d has mappings %+v", pid, p.mappings)
		}
	}
	for e, n := range s.refs.(countedReferences) {
		if n < 0 {
			t.Fatalf("%d references to %v", n, e)
		}
	}
}
