package process

import (
	"testing"

	"github.com/headwater/headwater/ebpf/common/clock"
)

// had says which file a process had at an address and a time, and whether a walk by the mappings of a generation was
// stale.
type had struct {
	time       uint64
	generation uint32
	file       *Executable
	stale      bool
}

func check(t *testing.T, tracker *Tracker, pid uint32, addr uint64, all []had) {
	t.Helper()
	for _, want := range all {
		view := tracker.At(pid, want.time)
		m, _ := view.mappings.findMapping(addr)
		if m.exe != want.file {
			t.Errorf("at %d: %v is mapped, want %v", want.time, m.exe, want.file)
		}
		if got := view.Stale(want.generation); got != want.stale {
			t.Errorf("at %d: a walk by generation %d is stale: %v, want %v", want.time, want.generation, got, want.stale)
		}
	}
}

// mapFile reports the mapping of a known file.
func mapFile(b *Batch, time uint64, pid uint32, start, pages uint64, e *Executable) {
	b.t.exes.keepExecutable(e)
	b.t.handle(mapped{time: time, pid: pid, mapping: fileAt(start, pages, 1), exe: e}.apply)
}

// files returns executables without text that no process has mapped.
func files(tracker *Tracker, n int) (all []*Executable) {
	for range n {
		e := &Executable{}
		e.image.Store(newImage(e, nil))
		tracker.exes.keepExecutable(e)
		all = append(all, e)
	}
	return all
}

// TestHistory: samples are read late, so at the time of a sample the process had other files and other programs than
// now.
func TestHistory(t *testing.T) {
	tracker, store := newTracker(t, fakeProc(t))
	const pid, addr = 20, 0x7000
	f := files(tracker, 4)
	generation := func() uint32 {
		p, _ := store.process(pid)
		return p.Generation
	}
	tracker.Update(func(b *Batch) {
		b.Exec(100, pid, "first")
		mapFile(b, 110, pid, addr, 2, f[0])
		b.Until(150)
	})
	first := generation()
	tracker.Update(func(b *Batch) { // a file over a part of another file, twice before the store gets any
		mapFile(b, 200, pid, addr-0x1000, 2, f[1])
		mapFile(b, 300, pid, addr, 1, f[2])
	})
	second := generation()
	tracker.Update(func(b *Batch) { mapFile(b, 400, pid, addr, 1, f[3]) })
	third := generation()
	tracker.Update(func(b *Batch) {
		b.Exec(500, pid, "second")
		mapFile(b, 510, pid, addr, 2, f[0])
	})
	check(t, tracker, pid, addr, []had{
		{150, first, f[0], false}, {250, first, f[1], true}, {350, first, f[2], true}, {350, second, f[2], false},
		{450, first, f[3], true}, {450, second, f[3], true}, {450, third, f[3], false},
		{550, third, f[0], true}, {550, generation(), f[0], false}, {99, 0, nil, false},
	})
	for time, want := range map[uint64]string{450: "first", 550: "second"} {
		if view := tracker.At(pid, time); view.Comm() != want {
			t.Errorf("at %d it is called %q, want %q", time, view.Comm(), want)
		}
	}
	if p, _ := store.process(pid); !p.Restless {
		t.Error("the stacks of a process that put files over others are not copied")
	}
	tracker.Reap(clock.Monotonic() + restless)
	if p, _ := store.process(pid); p.Restless {
		t.Error("they are copied for ever")
	}
	tracker.mu.Lock()
	defer tracker.mu.Unlock()
	if p := tracker.state.processes[pid]; len(p.epochs) != 0 || p.held != 0 || len(p.published) > 1 {
		t.Errorf("%d epochs of %d mappings and %d changes are kept", len(p.epochs), p.held, len(p.published))
	}
}

// TestManyReplacements: the earlier state of a process is lost if it has replaced too many files to remember.
func TestManyReplacements(t *testing.T) {
	tracker, store := newTracker(t, fakeProc(t))
	const pid, addr, times = 20, 0x7000, 10 * maxEpochs
	f := files(tracker, 2)
	tracker.Update(func(b *Batch) {
		b.Exec(100, pid, "busy")
		mapFile(b, 110, pid, addr, 1, f[1])
	})
	tracker.Update(func(b *Batch) {
		for i := range uint64(times) {
			mapFile(b, 1000+10*i, pid, addr, 1, f[i%2])
		}
	})
	p, _ := store.process(pid)
	check(t, tracker, pid, addr, []had{
		{1005, 0, f[0], false}, {1015, 0, f[1], false}, {1000 + 10*(times/2), 0, nil, false},
		{1000 + 10*times, p.Generation, f[1], false}, {1000 + 10*times, p.Generation - 1, f[1], true},
	})
	for range 3 * maxChanges { // each change reaches the store
		tracker.Update(func(b *Batch) { b.Exec(100_000, pid, "busy") })
	}
	if n := len(tracker.state.processes[pid].published); n > maxChanges {
		t.Errorf("%d changes are remembered", n)
	}
	if view := tracker.At(pid, 100_000); !view.Stale(p.Generation) {
		t.Error("a walk by mappings of before changes that are forgotten is not stale")
	}
}

// TestExecNumbers: the kernel counts the programs of a process, and a sample carries that count. The store then gets
// the program's number for the process and its relatives, and program starts that were not reported are noticed.
func TestExecNumbers(t *testing.T) {
	tracker, store := newTracker(t, fakeProc(t))
	const parent, child = 20, 21
	f := files(tracker, 1)
	exec := func(pid uint32) uint32 {
		p, _ := store.process(pid)
		return p.Exec
	}
	tracker.Update(func(b *Batch) {
		b.Exec(100, parent, "shell")
		mapFile(b, 110, parent, 0x1000, 1, f[0])
		b.Exec(200, parent, "shell")
		mapFile(b, 210, parent, 0x1000, 1, f[0])
	})
	if n := exec(parent); n != 0 {
		t.Errorf("the program has number %d before a sample of it came", n)
	}
	tracker.Update(func(b *Batch) { b.Fork(300, parent, child) })
	tracker.AtExec(child, 350, 8)
	tracker.Update(func(*Batch) {})
	if p, c := exec(parent), exec(child); p != 8 || c != 8 {
		t.Errorf("the programs have numbers %d and %d, want 8", p, c)
	}
	tracker.Update(func(b *Batch) {
		b.Exec(400, child, "tool")
		mapFile(b, 410, child, 0x1000, 1, f[0])
	})
	if n := exec(child); n != 9 {
		t.Errorf("the child's program has number %d, want 9", n)
	}
	p, _ := store.process(child)
	if v := tracker.AtExec(child, 450, 9); v.Stale(p.Generation) || len(v.mappings) != 1 {
		t.Errorf("the child has %d mappings, want one", len(v.mappings))
	}
	if v := tracker.AtExec(child, 460, 11); !v.Stale(p.Generation) || len(v.mappings) != 0 {
		t.Errorf("a program whose start was not reported has %d mappings, want none", len(v.mappings))
	}
	if v := tracker.AtExec(child, 470, 11); len(v.mappings) != 0 {
		t.Errorf("it has %d mappings later", len(v.mappings))
	}
}

// TestThreadStartsProgram: the first thread of a process ends when another thread starts a program, and the process
// continues.
func TestThreadStartsProgram(t *testing.T) {
	tracker, store := newTracker(t, fakeProc(t))
	const pid = 20
	f := files(tracker, 2)
	tracker.Update(func(b *Batch) {
		b.Exec(100, pid, "first")
		mapFile(b, 110, pid, 0x1000, 1, f[0])
	})
	tracker.Update(func(b *Batch) {
		b.Exit(200, pid)
		b.Exec(210, pid, "second")
		mapFile(b, 220, pid, 0x5000, 1, f[1])
	})
	if gone := tracker.Reap(1000); len(gone) != 0 {
		t.Errorf("%v are held for ended", gone)
	}
	if p, ok := store.process(pid); !ok || len(p.Mappings) != 1 || p.Mappings[0].Start != 0x5000 {
		t.Errorf("the store has %+v, want the mapping of the second program", p.Mappings)
	}
}
