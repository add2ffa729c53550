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

	"github.com/headwater/headwater/ebpf/common/clock"
)

// sideBandPages is the size of a CPU's side-band buffer, in pages of memory.
const sideBandPages = 32

// The kernel wakes the reader each time that another half of a buffer has been written, regardless of reads. If less
// than a quarter is filled then, the reader waits for the next wakeup: most records of programs that start and end are
// not urgent.
const (
	wakeShare = 2
	waitShare = 4
)

// SideBand reads the perf records besides samples, of every CPU: new mappings of processes, program starts, forks and
// exits, and code that the kernel generates at run time. One goroutine may wait while other goroutines read, one at a
// time.
type SideBand struct {
	epoll int     // of the rings' events
	ready *waiter // waits for epoll, but does not read its events
	mu    sync.Mutex
	rings []*perfRing
	batch []Record // records of the last Read, then records that came too late for it
	taken int      // number of records in batch that the last Read returned
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
		if addErr := s.addCPU(cpu); addErr != nil {
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

// addCPU opens the event of a CPU. Mapping records have device and inode, not the build ID (attr.build_id), which does
// not identify the file.
func (s *SideBand) addCPU(cpu int) error {
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

// Wait returns when enough records have arrived that they should be read before some are lost, or ErrClosed after
// Stop.
func (s *SideBand) Wait() error {
	_, err := s.ready.waitUntil(time.Time{}, func() bool {
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

// maxRecord is about the size of the largest record, in bytes: one with a path. A buffer with less room may have lost
// records.
const maxRecord = unix.PathMax + 256

// Read returns the records until a time, CLOCK_MONOTONIC in ns, in order of time, without waiting. The slice is valid
// until the next call. The kernel reports lost records when it has room for the next one, so Read reports a loss for a
// full buffer right away.
//
// Buffers are read one after the other. A process that migrates to another CPU during the read may write its last
// record to a buffer that was already read, and the next one to a buffer that was not. So records that are newer than
// the start of the read wait for the next call.
func (s *SideBand) Read() (records []Record, until uint64, err error) {
	s.batch = slices.Delete(s.batch, 0, s.taken)
	s.taken, until = 0, clock.Monotonic()
	for _, r := range s.rings {
		from, full := len(s.batch), r.filled()+maxRecord > uint64(len(r.data))
		err := r.readRecords(func(kind uint32, misc uint16, body []byte) {
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
func (s *SideBand) Stop() error { return s.ready.stopWaits() }

// Close releases everything. No goroutine may be waiting or reading.
func (s *SideBand) Close() {
	for _, r := range s.rings {
		r.close()
	}
	s.rings = nil
	s.ready.close()
}
