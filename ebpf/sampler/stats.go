package sampler

import (
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/tablestore"
)

// Stats are counters since Open and gauges of the present state.
type Stats struct {
	kernel.Counters
	Tables      tablestore.Usage
	RecordsLost uint64 // of processes and mappings, that the kernel had no room for
	Processes   int    // known now
	Executables int    // distinct ones known now

	Languages      []LanguageStats // frames of language runtimes, most first; bounded
	ChainsUnplaced uint64          // chains of interpreters whose place among the native frames was not certain

	Errors    map[string]uint64       // what cost names or stacks, and how often
	LimitHits map[limit.Reader]uint64 // how often readers of foreign bytes stopped at a bound
}

// Stats returns the present figures. With an error the kernel's counters are zero.
func (s *Sampler) Stats() (Stats, error) {
	out := Stats{
		Tables:      s.kernel.Tables().Usage(),
		RecordsLost: s.sideBand.lostRecords(),
		Errors:      s.tracker.Errors(),
		LimitHits:   s.tracker.LimitHits(),
	}
	out.Processes, out.Executables = s.tracker.Counts()
	out.Languages = s.interpreted.languages.stats()
	out.ChainsUnplaced = s.interpreted.unplaced.Load()
	counters, err := s.kernel.Counters()
	if err != nil {
		return out, err
	}
	out.Counters = counters
	out.Ignored += s.ignored.Load() // those that only user space knew of
	return out, nil
}
