package tablestore

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	slabBytes = SlabWords * 8

	// runAlign is the granule of allocations, in words: one cache line.
	runAlign = 8
	// quarantine is how long freed words stay untouched. A sample in progress may read them for microseconds at most.
	quarantine = 500 * time.Millisecond
)

// ErrFull reports that table memory has no run of the requested length.
var ErrFull = errors.New("unwind table memory is exhausted")

// ErrClosed reports that the store has been closed.
var ErrClosed = errors.New("the store of unwind tables is closed")

// run is a range of words of table memory, all in one slab.
type run struct{ start, words uint32 }

// slabs is table memory: a growing number of slabs. Only parts of the slabs are mapped into this process at a time, see
// bpf/abi/limits.h. Not safe for concurrent use.
type slabs struct {
	create func(number int) (Slab, error)
	limit  int // maximum number of slabs
	data   []*slab
	mapped mappedChunks
	free   [][]run // by slab, sorted by start, none adjacent
	dead   []deadRun
	used   int // words in allocated runs
	closed bool
}

type deadRun struct {
	run
	since time.Time
}

// newSlabs returns table memory of at most the given number of bytes, but at least one slab.
func newSlabs(create func(number int) (Slab, error), bytes int) (*slabs, error) {
	s := &slabs{create: create}
	s.setLimit(bytes)
	if err := s.addSlab(); err != nil {
		return nil, err
	}
	// Word 0 means "none", so the first granule is never allocated.
	s.free[0] = []run{{start: runAlign, words: uint32(SlabWords - runAlign)}}
	return s, nil
}

// setLimit changes the limit of memory. Existing slabs stay.
func (s *slabs) setLimit(bytes int) { s.limit = min(max(bytes/slabBytes, 1), MaxSlabs) }

// addSlab adds a slab. Slabs are never replaced or removed: old kernels do not handle that well while programs run.
func (s *slabs) addSlab() error {
	n := len(s.data)
	if n >= s.limit {
		return ErrFull
	}
	one, err := newSlab()
	if err != nil {
		return fmt.Errorf("map slab %d of table memory: %w", n, err)
	}
	if one.m, err = s.create(n); err != nil {
		return errors.Join(fmt.Errorf("create slab %d of table memory: %w", n, err), one.freeMemory())
	}
	s.data = append(s.data, one)
	s.free = append(s.free, []run{{start: uint32(n * SlabWords), words: uint32(SlabWords)}})
	return nil
}

// alloc returns a run of at least the given number of words, with any content.
func (s *slabs) alloc(words int) (run, error) {
	words = (words + runAlign - 1) &^ (runAlign - 1)
	if words <= 0 || words > SlabWords-runAlign {
		return run{}, fmt.Errorf("%w: no run of %d words", ErrFull, words)
	}
	if s.closed {
		return run{}, ErrClosed
	}
	s.reclaim(time.Now())
	if r, ok := s.takeRun(uint32(words)); ok {
		return r, nil
	}
	if err := s.addSlab(); err != nil {
		return run{}, err
	}
	if r, ok := s.takeRun(uint32(words)); ok {
		return r, nil
	}
	return run{}, ErrFull
}

// takeRun allocates a run from the first free run that is long enough.
func (s *slabs) takeRun(words uint32) (run, bool) {
	for n, free := range s.free {
		for i := range free {
			if free[i].words < words {
				continue
			}
			r := run{start: free[i].start, words: words}
			free[i].start += words
			free[i].words -= words
			if free[i].words == 0 {
				s.free[n] = slices.Delete(free, i, i+1)
			}
			s.used += int(words)
			return r, true
		}
	}
	return run{}, false
}

// release frees a run after a quarantine, because BPF programs may still be reading it.
func (s *slabs) release(r run) {
	if r.words == 0 {
		return
	}
	s.used -= int(r.words)
	s.dead = append(s.dead, deadRun{run: r, since: time.Now()})
}

// reclaim frees the runs whose quarantine is over.
func (s *slabs) reclaim(now time.Time) {
	n := 0
	for n < len(s.dead) && now.Sub(s.dead[n].since) >= quarantine {
		s.insert(s.dead[n].run)
		n++
	}
	s.dead = slices.Delete(s.dead, 0, n)
}

// insert adds r to the free runs of its slab and merges it with its neighbours.
func (s *slabs) insert(r run) {
	n := int(r.start) / SlabWords
	free := s.free[n]
	i, _ := slices.BinarySearchFunc(free, r.start,
		func(f run, start uint32) int { return int(int64(f.start) - int64(start)) })
	free = slices.Insert(free, i, r)
	if i+1 < len(free) && free[i].start+free[i].words == free[i+1].start {
		free[i].words += free[i+1].words
		free = slices.Delete(free, i+1, i+2)
	}
	if i > 0 && free[i-1].start+free[i-1].words == free[i].start {
		free[i-1].words += free[i].words
		free = slices.Delete(free, i, i+1)
	}
	s.free[n] = free
}

// words returns the memory of a run, which is in one slab. It stays mapped until the next call.
func (s *slabs) words(start uint32, n int) ([]uint64, error) {
	if s.closed {
		return nil, ErrClosed
	}
	at := int(start) & (SlabWords - 1)
	one := s.data[int(start)/SlabWords]
	if err := s.mapped.holdWords(one, at, n); err != nil {
		return nil, err
	}
	return one.words[at : at+n : at+n], nil
}

// usedBytes and limitBytes return the allocated memory and its limit.
func (s *slabs) usedBytes() int  { return s.used * 8 }
func (s *slabs) limitBytes() int { return s.limit * slabBytes }

// bytes is the memory of all slabs.
func (s *slabs) bytes() int { return len(s.data) * slabBytes }

func (s *slabs) close() error {
	var errs []error
	for _, d := range s.data {
		errs = append(errs, d.close())
	}
	s.data, s.free, s.dead, s.closed = nil, nil, nil, true
	return errors.Join(errs...)
}
