package server

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/flame/tree"
)

// How long an unused maker is kept.
const (
	maxMakerIdle = time.Minute     // it takes more memory than all answers, and less time to make again
	maxMakerAge  = 2 * time.Minute // also of a used maker: it holds frames of profiles that are no longer kept
)

// maker is the reusable memory for making answers. It is empty between two answers.
type maker struct {
	tree *tree.Merge
	sums *tree.Sums
	made time.Time
	used time.Time // time of giveBack
}

// makers keep a maker while answers are requested. It is safe for concurrent use.
type makers struct {
	free atomic.Pointer[maker]
	used atomic.Int64 // time of the last use, in ns since 1970
}

// takeMaker returns a maker. The caller must give it back.
func (m *makers) takeMaker() *maker {
	if kept := m.free.Swap(nil); kept != nil {
		return kept
	}
	merge := tree.NewMerge()
	return &maker{tree: merge, sums: tree.NewSums(tree.DefaultMaxFunctions), made: time.Now()}
}

// giveBack keeps a maker for the next answer. Objects that it has made are no longer valid.
func (m *makers) giveBack(used *maker) {
	used.used = time.Now()
	m.used.Store(used.used.UnixNano())
	if used.used.Sub(used.made) > maxMakerAge {
		return
	}
	used.tree.Reset()
	used.sums.Reset()
	m.free.Store(used)
}

// expire drops a maker that has not been used recently.
func (m *makers) expire(now time.Time) {
	if now.UnixNano()-m.used.Load() > maxMakerIdle.Nanoseconds() {
		m.dropMaker()
	}
}

// dropMaker drops the kept maker.
func (m *makers) dropMaker() { m.free.Store(nil) }

// compress returns a struct as compressed JSON.
func compress(answer any) ([]byte, error) {
	return pprof.Compress(func(w io.Writer) error { return encodeFields(w, answer) })
}
