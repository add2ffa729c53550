package flamegraph

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/pprof"
	"github.com/headwater/headwater/ebpf/trie"
)

// How long what is not used is kept.
const (
	maxMakerIdle = time.Minute     // a maker: it takes more memory than all answers, and is made again in less time
	maxMakerAge  = 2 * time.Minute // also one that is used: it has frames of profiles that are no longer kept
)

// maker is what answers are made with. It is empty, but has memory that the answers before took.
type maker struct {
	tree *trie.Merge
	sums *trie.Sums
	made time.Time
	used time.Time // when it was given back
}

// makers keep a maker while somebody looks. It is safe for concurrent use.
type makers struct {
	free atomic.Pointer[maker]
	used atomic.Int64 // when it was used last, in ns since 1970
}

// take returns a maker, for as long as it is not given back.
func (m *makers) take() *maker {
	if kept := m.free.Swap(nil); kept != nil {
		return kept
	}
	tree := trie.NewMerge()
	return &maker{tree: tree, sums: tree.NewSums(trie.DefaultMaxFunctions), made: time.Now()}
}

// giveBack keeps a maker for the next answer. What it has made is no longer valid.
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

// expire gives up a maker that was not used for a while.
func (m *makers) expire(now time.Time) {
	if now.UnixNano()-m.used.Load() > maxMakerIdle.Nanoseconds() {
		m.drop()
	}
}

// drop gives up the maker that is kept.
func (m *makers) drop() { m.free.Store(nil) }

// compress returns a struct as JSON, compressed.
func compress(answer any) ([]byte, error) {
	return pprof.Compress(func(w io.Writer) error { return encodeFields(w, answer) })
}
