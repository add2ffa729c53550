package jit

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// resident returns the resident memory of this process in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	var kib int64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// TestMemory: ten programs with maps of 125 MB each take at most the budget and the memory for rebuilding the lists.
// All memory is freed when they end.
func TestMemory(t *testing.T) {
	const processes, mapBytes = 10, 125 << 20
	first := ""
	var pids []uint32
	for range processes {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("/tmp/perf-%d.map", cmd.Process.Pid)
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			os.Remove(path)
		})
		pids = append(pids, uint32(cmd.Process.Pid))
		if first == "" {
			first = path
			writeBigMap(t, path, mapBytes)
		} else if err := os.Link(first, path); err != nil {
			t.Fatal(err)
		}
	}
	p := New(procfs.Default, &filework.Pool{}, DefaultBytes)
	defer p.Close()
	debug.FreeOSMemory()
	before := resident(t)
	most := before
	for _, pid := range pids {
		p.Observe(pid)
		p.Read(pid, nil)
		if f, ok := p.Frame(pid, 0x1000); !ok {
			t.Errorf("process %d: %+v", pid, f)
		}
		most = max(most, resident(t))
		p.Ended(pid)
	}
	stats := p.Stats()
	p.Forget(p.Gone())
	runtime.GC()
	after := resident(t)
	t.Logf("%d maps of %d MB: %d MB before, %d MB at most, %d MB when they have ended; %d MB of names, "+
		"%d functions dropped", processes, mapBytes>>20, before>>20, most>>20, after>>20, stats.Bytes>>20, stats.Dropped)
	if most-before > 4*DefaultBytes {
		t.Errorf("%d MB more than before", (most-before)>>20)
	}
	if after-before > 16<<20 {
		t.Errorf("%d MB more than before when they have ended", (after-before)>>20)
	}
	if stats.Bytes > DefaultBytes || stats.Dropped == 0 {
		t.Errorf("%+v", stats)
	}
}

// writeBigMap writes a map of a size in bytes.
func writeBigMap(t *testing.T, path string, bytes int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := bigMap(20_000, 60)
	for written := 0; written < bytes; written += len(text) {
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
}
