package kernel

import (
	"os"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
)

// TestRuleCache changes the rows of running code, and the mappings: walks use the new ones at once.
func TestRuleCache(t *testing.T) {
	p := load(t)
	self := uint32(os.Getpid())
	from := uint64(reflect.ValueOf(burn).Pointer())
	low, high := from>>unwind.MinPageShift, from>>unwind.MinPageShift+1 // burn may go on there
	directory, err := p.Tables().AddDirectory(uint32(low), uint32(high-low+1), unwind.MinPageShift)
	if err != nil {
		t.Fatal(err)
	}
	maps, err := procfs.Default.ExecMappings(self)
	if err != nil {
		t.Fatal(err)
	}
	setProcess := func(generation uint32, exe unwind.ExeID) {
		t.Helper()
		process := unwind.Process{Generation: generation}
		for _, m := range maps {
			if from >= m.Start && from < m.End {
				process.Mappings = []unwind.Mapping{{Start: m.Start, End: m.End, Exe: exe, Directory: directory}}
			}
		}
		if err := p.Tables().SetProcess(self, process); err != nil {
			t.Fatal(err)
		}
	}
	setRows := func(r unwind.Row) {
		t.Helper()
		for page := low; page <= high; page++ {
			r.Off = uint16(page << unwind.MinPageShift)
			if err := p.Tables().SetPage(directory, page, &unwind.Page{Rows: []unwind.Row{r}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	outermost := unwind.Row{CFA: unwind.CFASP, CFAOff: 8, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)}
	unsupported := unwind.Row{CFA: unwind.CFAUnsupported}

	setRows(outermost)
	setProcess(1, 1)
	if err := p.SetStacks(true, false, false); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(500); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go burn(stop)

	// want waits for samples that were taken from now on.
	want := func(what string, outcome unwind.Outcome, exe unwind.ExeID) {
		t.Helper()
		n, since := 0, clock.Monotonic()
		testkit.Eventually(t, "there are 20 samples with "+what, func() bool {
			_, err := p.ReadSamples(time.Now().Add(50*time.Millisecond), func(s *Sample) {
				if s.PID != self || !s.InUser || s.Time < since || len(s.User) == 0 {
					return
				}
				if f := runtime.FuncForPC(uintptr(s.User[0].Vaddr)); f == nil || f.Entry() != uintptr(from) {
					return
				}
				if n++; s.Outcome != outcome || s.User[0].Exe != exe {
					t.Errorf("%s: %s in executable %d, want %s in %d", what, s.Outcome, s.User[0].Exe, outcome, exe)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			return n >= 20
		})
	}
	want("first rows", unwind.Complete, 1)
	setRows(unsupported)
	want("other rows", unwind.UnsupportedRule, 1)
	setProcess(2, 2)
	want("other mappings", unwind.UnsupportedRule, 2)
	setRows(outermost)
	want("the first rows", unwind.Complete, 2)
	p.Tables().DropPage(directory, low)
	p.Tables().DropPage(directory, high)
	want("no rows", unwind.PageMissing, 2)
}
