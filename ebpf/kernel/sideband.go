package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/clock"
)

// sideBandPages is the size of a CPU's side-band buffer, in pages of memory.
const sideBandPages = 32

// The kernel wakes who waits each time that another half of a buffer has been written,
// whatever was read meanwhile. If less than a quarter is there, it can wait for the
// next time: most of what programs do while they start and end nobody asks for, and it
// is read with the rest.
const (
	wakeShare = 2
	waitShare = 4
)

// SideBand reads what perf records besides samples: processes' new mappings, program
// starts, forks and exits, and code that the kernel makes while it runs, of every
// CPU. One goroutine may wait while others read, one at a time.
type SideBand struct {
	epoll int     // of the rings' events
	ready *waiter // for epoll; nobody asks it which events there are
	mu    sync.Mutex
	rings []*perfRing
	batch []Record // what was read; after a Read those that came too late for it
	taken int      // of these, what the last Read returned
	texts texts    // of the records read so far

	checked uint64 // time when AddCPUs was called last
}

// OpenSideBand opens a dummy event on every online CPU.
func OpenSideBand() (*SideBand, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("side-band: epoll: %w", err)
	}
	ready, err := newWaiter(epoll, "side-band")
	if err != nil {
		return nil, err
	}
	s := &SideBand{epoll: epoll, ready: ready, texts: texts{}}
	if _, err := s.AddCPUs(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// AddCPUs opens events on the CPUs that came online since the last call, also on CPUs that were offline in between. It
// returns the CPUs that have been offline, whether they are back or not: all their events have ended. Records are
// missing from the time that a CPU was back, and Read says so. Call AddCPUs when Read has returned all records, and
// while no other goroutine reads.
func (s *SideBand) AddCPUs() (ended []int, err error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, fmt.Errorf("side-band: find online CPUs: %w", err)
	}
	known := map[int]bool{}
	s.mu.Lock()
	s.rings = slices.DeleteFunc(s.rings, func(r *perfRing) bool {
		known[r.event.cpu] = slices.Contains(cpus, r.event.cpu) && r.event.alive()
		if known[r.event.cpu] {
			return false
		}
		ended = append(ended, r.event.cpu)
		r.close()
		return true
	})
	s.mu.Unlock()
	since, added := s.checked, false
	s.checked = clock.Monotonic()
	for _, cpu := range cpus {
		if known[cpu] {
			continue
		}
		if addErr := s.add(cpu); addErr != nil {
			err = errors.Join(err, addErr) // it may have gone offline just now
			continue
		}
		added = true
	}
	if added && since != 0 {
		s.batch = append(s.batch, Record{Kind: RecordLost, Time: clock.Monotonic(), Since: since})
	}
	return ended, err
}

func (s *SideBand) watch(fd int) error {
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("side-band: epoll: %w", err)
	}
	return nil
}

// perfBitKSymbol asks for PERF_RECORD_KSYMBOL (attr.ksymbol, 5.1).
const perfBitKSymbol = 1 << 29

// add opens the events of a CPU. Mappings come with device and inode, not with a build
// ID (attr.build_id): that does not say which file it is.
func (s *SideBand) add(cpu int) error {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_DUMMY,
		Sample_type: unix.PERF_SAMPLE_TIME,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			perfBitKSymbol | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark,
		Wakeup:  uint32(sideBandPages * os.Getpagesize() / wakeShare),
		Clockid: unix.CLOCK_MONOTONIC,
	}
	event, err := openPerfEvent(&attr, cpu)
	if err != nil {
		return fmt.Errorf("side-band: %w", err)
	}
	ring, err := newPerfRing(event, sideBandPages)
	if err != nil {
		return errors.Join(fmt.Errorf("side-band: CPU %d: %w", cpu, err), event.close())
	}
	event.alive()
	s.mu.Lock()
	s.rings = append(s.rings, ring)
	s.mu.Unlock()
	return s.watch(event.fd)
}

// Wait returns when so much has come that it should be read before some is lost, or
// ErrClosed after Stop.
func (s *SideBand) Wait() error {
	_, err := s.ready.wait(time.Time{}, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.rings,
			func(r *perfRing) bool { return r.filled() >= uint64(len(r.data)/waitShare) })
	})
	if err != nil {
		return fmt.Errorf("side-band: wait: %w", err)
	}
	return nil
}

// maxRecord is about the size of the largest record, in bytes: one with a path. A buffer with
// less room than that has lost records, or may have.
const maxRecord = unix.PathMax + 256

// Read returns what has been recorded until a time, CLOCK_MONOTONIC in ns, in order of time, without waiting. The slice
// is valid until the next call. The kernel reports lost records when it has room for the next one, so a buffer that is
// full is said to have lost some right away.
//
// Buffers are read one after the other: a process that goes over to another CPU meanwhile may have its last record in
// one that was read before, and the next one in one that was not yet. So records of after the beginning wait.
func (s *SideBand) Read() (records []Record, until uint64, err error) {
	s.batch = slices.Delete(s.batch, 0, s.taken)
	s.taken, until = 0, clock.Monotonic()
	for _, r := range s.rings {
		from, full := len(s.batch), r.filled()+maxRecord > uint64(len(r.data))
		err := r.read(func(kind uint32, misc uint16, body []byte) {
			s.batch = parseRecord(s.batch, s.texts, kind, misc, body)
		})
		if err != nil {
			return nil, 0, fmt.Errorf("side-band: CPU %d: %w", r.event.cpu, err)
		}
		for i := from; i < len(s.batch); i++ {
			if s.batch[i].Kind == RecordLost {
				s.batch[i].Since = r.last
			}
			r.last = s.batch[i].Time
		}
		if full {
			s.batch = append(s.batch, Record{Kind: RecordLost, Time: max(until, r.last+1), Since: r.last})
		}
	}
	slices.SortStableFunc(s.batch, func(a, b Record) int { return cmp.Compare(a.Time, b.Time) })
	s.taken = len(s.batch)
	for s.taken > 0 && s.batch[s.taken-1].Time > until {
		s.taken--
	}
	return s.batch[:s.taken], until, nil
}

// Stop ends the present and every later Wait. It may be called at any time
// before Close.
func (s *SideBand) Stop() error { return s.ready.stop() }

// Close releases everything. Nobody may be waiting or reading.
func (s *SideBand) Close() {
	for _, r := range s.rings {
		r.close()
	}
	s.rings = nil
	s.ready.close()
}
