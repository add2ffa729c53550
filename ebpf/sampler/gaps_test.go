package sampler

import (
	"testing"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
)

// A stack without mappings is blamed on lost records if records of its time were lost, or if it was read long after; no
// other stack is.
func TestBlame(t *testing.T) {
	var g gaps
	now := clock.Monotonic()
	g.addRecord(&kernel.Record{Kind: kernel.RecordLost, Since: now - 200, Time: now - 100})
	g.addRecord(&kernel.Record{Kind: kernel.RecordLost, Since: now - 120, Time: now - 50, Count: 7}) // continues the gap
	g.addRecord(&kernel.Record{Kind: kernel.RecordLost, Since: now - 20, Time: now - 10, Count: 5})
	for _, test := range []struct {
		time          uint64
		outcome, want unwind.Outcome
	}{
		{now - 60, unwind.ProcessUnknown, unwind.RecordsLost},
		{now - 15, unwind.NoMapping, unwind.RecordsLost},
		{now - 30, unwind.ProcessUnknown, unwind.ProcessUnknown},
		{now - 300, unwind.NoMapping, unwind.NoMapping},
		{now - 10e9, unwind.ProcessUnknown, unwind.RecordsLost},
		{now - 60, unwind.Complete, unwind.Complete},
		{now - 10e9, unwind.NoRow, unwind.NoRow},
	} {
		s := &kernel.Sample{Time: test.time, Outcome: test.outcome}
		if g.blame(s); s.Outcome != test.want {
			t.Errorf("%s, %d ns ago: %s, want %s", test.outcome, now-test.time, s.Outcome, test.want)
		}
	}
	if lost := g.lostRecords(); lost != 12 {
		t.Errorf("%d records lost, want 12", lost)
	}
	for i := range uint64(10 * maxGaps) {
		g.addRecord(&kernel.Record{Kind: kernel.RecordLost, Since: now + 10*i, Time: now + 10*i + 5})
	}
	if n := len(g.times); n > maxGaps {
		t.Errorf("%d times are remembered, want at most %d", n, maxGaps)
	}
}
