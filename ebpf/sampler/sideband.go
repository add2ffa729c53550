package sampler

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
)

// sideBand reports the kernel's records of processes and mappings to the tracker. Samples are interpreted with the
// records that were drained before them.
type sideBand struct {
	band    *kernel.SideBand
	tracker *process.Tracker
	observe func(*kernel.Record) // nil if there is no observer
	gaps

	draining sync.Mutex    // one reader at a time
	upTo     atomic.Uint64 // it has been drained up to this time, CLOCK_MONOTONIC
}

// openSideBand opens the side-band of every CPU.
func openSideBand(t *process.Tracker, observe func(*kernel.Record)) (*sideBand, error) {
	band, err := kernel.OpenSideBand()
	if err != nil {
		return nil, err
	}
	return &sideBand{band: band, tracker: t, observe: observe}, nil
}

// addCPUs opens the side-band of the CPUs that came online, and returns those that have been offline.
func (s *sideBand) addCPUs() (ended []int, err error) {
	s.draining.Lock()
	defer s.draining.Unlock()
	if err := s.drainLocked(); err != nil { // what CPUs have recorded that went offline
		return nil, err
	}
	return s.band.AddCPUs()
}

// follow keeps the side-band from overflowing until stop. Run also drains it before it uses samples, once for all
// available samples, and is woken by samples that miss a table. So new programs become known in time, and the thousand
// records a second of programs that are not sampled cost no wakeups.
func (s *sideBand) follow() error {
	for {
		err := s.band.Wait()
		if errors.Is(err, kernel.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.drain(); err != nil {
			return err
		}
	}
}

// drainUntil drains the side-band unless it has been drained up to a time. It may be called concurrently.
func (s *sideBand) drainUntil(time uint64) error {
	if time <= s.upTo.Load() {
		return nil
	}
	return s.drain()
}

// drain reports the records in the side-band to the tracker.
func (s *sideBand) drain() error {
	s.draining.Lock()
	defer s.draining.Unlock()
	return s.drainLocked()
}

// drainLocked is drain for a caller that holds the lock of the reader.
func (s *sideBand) drainLocked() error {
	records, until, err := s.band.Read()
	if err != nil {
		return err
	}
	defer s.upTo.Store(until) // after the update, as readers of upTo rely on the records
	if len(records) == 0 {
		return nil
	}
	s.tracker.Update(func(b *process.Batch) {
		for i := range records {
			if records[i].Kind == kernel.RecordLost {
				s.gaps.addRecord(&records[i])
			}
			apply(b, &records[i])
			if s.observe != nil {
				s.observe(&records[i])
			}
		}
		b.Until(until)
	})
	return nil
}

func apply(b *process.Batch, r *kernel.Record) {
	switch r.Kind {
	case kernel.RecordMap:
		b.Map(r.Time, r.PID, r.Mapping)
	case kernel.RecordExec:
		b.Exec(r.Time, r.PID, r.Comm)
	case kernel.RecordComm:
		b.Comm(r.Time, r.PID, r.Comm)
	case kernel.RecordFork:
		b.Fork(r.Time, r.Parent, r.PID)
	case kernel.RecordExit:
		b.Exit(r.Time, r.PID)
	case kernel.RecordLost:
		b.Lost(r.Since)
	}
}

// stopReading ends follow.
func (s *sideBand) stopReading() error { return s.band.Stop() }

// close releases the side-band. No goroutine may be reading.
func (s *sideBand) close() { s.band.Close() }
