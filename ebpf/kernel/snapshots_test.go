package kernel

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
)

// TestSnapshots takes samples of this process with snapshots, and finds that each sample has a snapshot that starts at
// the same instruction.
func TestSnapshots(t *testing.T) {
	p := load(t)
	p.KeepSnapshots()
	if err := p.SetStacks(true, false, false); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(200); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go burn(stop)

	type key struct {
		cpu, tid uint32
		pc       uint64
	}
	samples, snapshots := map[key][]uint64{}, map[key][]PerfSnapshot{}
	n, lostBefore := 0, uint64(0)
	// If this process has no CPU for a while, a buffer overflows, which is counted. The search for matching samples and
	// snapshots then starts again.
	testkit.Eventually(t, "20 samples of this process are read and nothing is lost meanwhile", func() bool {
		_, err := p.ReadSamples(time.Now().Add(100*time.Millisecond), func(s *Sample) {
			if s.PID == uint32(os.Getpid()) && len(s.User) > 0 {
				k := key{s.CPU, s.TID, s.User[0].Vaddr}
				samples[k] = append(samples[k], s.Time)
				n++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		lost, err := p.ReadSnapshots(func(c *PerfSnapshot) {
			k := key{c.CPU, c.TID, c.PC}
			snapshots[k] = append(snapshots[k], PerfSnapshot{Time: c.Time, InUser: c.InUser,
				Stack: make([]byte, len(c.Stack))})
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Counters()
		if err != nil {
			t.Fatal(err)
		}
		if lost += c.Lost; lost > lostBefore {
			t.Logf("%d samples and snapshots are lost", lost-lostBefore)
			n, lostBefore = 0, lost
			clear(samples)
			clear(snapshots)
		}
		return n >= 20
	})
	for k, times := range samples {
		if len(snapshots[k]) < len(times) {
			t.Errorf("%d samples at 0x%x, %d snapshots", len(times), k.pc, len(snapshots[k]))
			continue
		}
		for i, at := range times {
			c := snapshots[k][i]
			// Newer kernels make the snapshot just before the sample, older ones just after.
			if i > 0 && c.Time <= times[i-1] || i+1 < len(times) && c.Time >= times[i+1] {
				t.Errorf("the snapshot of time %d does not belong to sample %d, of time %d", c.Time, i, at)
			}
			if !c.InUser || len(c.Stack) < 64 {
				t.Errorf("snapshot in user mode: %t, with %d bytes of stack", c.InUser, len(c.Stack))
			}
		}
	}
}

// FuzzParseSnapshot: no record makes the parser panic, or return a stack longer than the record.
func FuzzParseSnapshot(f *testing.F) {
	whole := binary.NativeEndian.AppendUint64(make([]byte, 16), 2) // abi
	whole = append(whole, make([]byte, 8*len(regNumbers))...)
	whole = binary.NativeEndian.AppendUint64(whole, 16)
	whole = append(whole, make([]byte, 16)...)
	whole = binary.NativeEndian.AppendUint64(whole, 8)
	f.Add(whole)
	f.Add(make([]byte, 32))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c PerfSnapshot
		if c.parse(b) && len(c.Stack) > len(b) {
			t.Errorf("%d bytes of stack in a record of %d", len(c.Stack), len(b))
		}
	})
}
