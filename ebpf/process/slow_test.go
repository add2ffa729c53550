package process

import (
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestLateFile: a file that was opened before stays known when it is late, as on a mount that hangs.
func TestLateFile(t *testing.T) {
	h := newHosts(t)
	m := mappedAs(t, builtProgram(t, t.TempDir(), "program", smallProgram), textAt)
	mapped := func() *Executable {
		h.next++
		pid := h.next
		h.Update(func(b *Batch) {
			b.Exec(clock.Monotonic(), pid, "program")
			b.Map(clock.Monotonic(), pid, m)
		})
		return h.executable(pid)
	}
	first := mapped()
	if first == nil || first.Err != nil {
		t.Fatalf("the executable: %+v", first)
	}
	h.exes.byMapped[mappedFileOf(&m)].exact = false // as on overlayfs: each process opens it
	h.exes.patience = 0
	for range 20 {
		if e := mapped(); e != first {
			t.Fatalf("the executable of a file that is late: %+v", e)
		}
	}
}

// TestPendingFile: code of a file that was not opened in time is at its offset in the file, and a walk does not
// continue by frame pointers from there.
func TestPendingFile(t *testing.T) {
	h := newHosts(t)
	m := mappedAs(t, builtProgram(t, t.TempDir(), "program", smallProgram), textAt)
	const pid = 1
	hang := make(chan struct{})
	defer close(hang)
	for origin := h.exes.origin(pid, &m); ; { // until the mount is refused
		task, err := h.exes.work.Start(origin, "hanging", func() { <-hang })
		if err != nil {
			break
		}
		if err := h.exes.work.Wait(task, 0); err == nil {
			t.Fatal("the work does not hang")
		}
	}
	h.Update(func(b *Batch) {
		b.Exec(clock.Monotonic(), pid, "program")
		b.Map(clock.Monotonic(), pid, m)
	})
	v := h.At(pid, clock.Monotonic())
	exe, offset := v.Locate(m.Start + 0x10)
	if e := h.Executable(exe); e == nil || e.Path != m.Path || e.Err == nil || offset != m.Offset+0x10 {
		t.Fatalf("executable %+v, offset %#x", e, offset)
	}
	if _, outcome := v.Rule(m.Start + 0x10); outcome != unwind.PageMissing {
		t.Errorf("the rule: %v", outcome)
	}
	if p := h.store.processes[pid]; len(p.Mappings) != 0 {
		t.Errorf("the kernel walks through %+v", p.Mappings)
	}
}

// TestWaits: after a long wait, later waits are shorter, except for a caller that has no other work.
func TestWaits(t *testing.T) {
	w := newWaits(openAtOnce, openShare)
	if got := w.patience(openPatience); got != openPatience {
		t.Errorf("at first %v", got)
	}
	w.spent(time.Now().Add(-time.Hour))
	if got := w.patience(openPatience); got == openPatience {
		t.Error("it is waited for as long as before")
	}
	if got := w.patience(time.Minute); got != time.Minute {
		t.Errorf("who has nothing else to do waits %v", got)
	}
}
