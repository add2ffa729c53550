package process

import (
	"testing"

	"github.com/headwater/headwater/ebpf/clock"
)

// TestLateFile: what is known of a file that was opened before stays when it is late, as that of a mount that hangs.
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
