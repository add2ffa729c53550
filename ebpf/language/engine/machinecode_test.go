package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestMachineCodes: an instruction is in the code that was noted last at its address, if that code is of the function,
// and only for some time.
func TestMachineCodes(t *testing.T) {
	m := machineCodes{room: newRoom()}
	now := time.Now()
	one, two := CodeAt{Address: 1, Cookie: 1}, CodeAt{Address: 2, Cookie: 2}
	note := func(low, high uint64, of CodeAt, id unwind.CodeID) {
		m.noteCode(7, machineCode{low: low, high: high, of: of, id: id, checked: now, used: now})
	}
	expect := func(pc uint64, caller bool, of CodeAt, id unwind.CodeID, ip uint64, known bool) {
		t.Helper()
		a := MachineCodeAt{PC: pc, Caller: caller, Of: of, ID: unwind.UnknownCode}
		if got := m.lookUp(7, &a, now); a.ID != id || a.IP != ip || got != known {
			t.Errorf("at %d: code %d at %d, known %v; want %d at %d, %v", pc, a.ID, a.IP, got, id, ip, known)
		}
	}
	const none = unwind.UnknownCode
	note(100, 200, one, 11)
	note(300, 400, two, 12)
	note(200, 201, one, none)
	expect(99, false, one, none, 0, false)
	expect(100, false, one, 11, 0, true)
	expect(100, true, one, none, 0, false)
	expect(200, true, one, 11, 100, true)
	expect(200, false, one, none, 0, true)
	expect(350, false, two, 12, 50, true)
	expect(350, false, one, none, 0, true) // a leaf that has no frame yet
	if a := (MachineCodeAt{PC: 100, Of: one}); m.lookUp(8, &a, now) {
		t.Error("code of another process")
	}

	note(150, 310, two, 13) // over all three
	expect(100, false, one, none, 0, false)
	expect(309, false, two, 13, 159, true)
	expect(310, false, two, none, 0, false)
	if n := m.room.bytes / machineCodeBytes; n != 1 {
		t.Errorf("%d pieces, want 1", n)
	}
	now = now.Add(machineCodeWhile)
	expect(200, false, two, 13, 50, false)

	m.trimUnused(now)
	if n := m.room.bytes / machineCodeBytes; n != 1 {
		t.Errorf("%d pieces, want 1: it was used", n)
	}
	m.trimUnused(now.Add(time.Second))
	if m.room.bytes != 0 || len(m.of) != 0 {
		t.Errorf("%d bytes are left, of %d processes", m.room.bytes, len(m.of))
	}
}

// compiler is an interpreter whose code is at 100 up to 200. The function of that code has moved to moved.
type compiler struct {
	language.FrameReader
	moved uint64
	reads int
}

func (c *compiler) MachineCode(_ language.Memory, _, function uint64) (language.MachineCode, error) {
	c.reads++
	if function != c.moved {
		return language.MachineCode{}, errors.New("code of another function")
	}
	return language.MachineCode{Low: 100, High: 200, Stamp: 5, Function: language.Function{Name: "f"}}, nil
}

func (c *compiler) Stamp(language.Memory, uint64) uint64 { return 5 }

// TestMachineCodeOfMovedFunction: code stays known after its function has moved. A leaf that still has the frame of
// another function does not make it unknown.
func TestMachineCodeOfMovedFunction(t *testing.T) {
	c := &compiler{moved: 1}
	r := newRoom()
	i := &Interpreter{frames: c, functions: newFunctions(r), machine: machineCodes{room: r}}
	memory := newReads(procfs.Default).memory(7)
	for _, step := range []struct {
		moved, of uint64
		known     bool
	}{{1, 1, true}, {1, 9, false}, {1, 1, true}, {2, 2, true}, {2, 1, false}, {2, 2, true}} {
		c.moved = step.moved
		a := MachineCodeAt{PC: 150, Of: CodeAt{Address: step.of}, ID: unwind.UnknownCode}
		i.readMachineCode(c, memory, &a)
		if i.machine.lookUp(7, &a, time.Now()); (a.ID != unwind.UnknownCode) != step.known {
			t.Errorf("%+v: code %d", step, a.ID)
		}
	}
	if reads := c.reads; len(i.machine.of[7]) != 1 || reads != 4 {
		t.Errorf("%d pieces and %d reads, want 1 and 4", len(i.machine.of[7]), reads)
	}
}
