package ebpf

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/headwater/headwater/component/pyroscope/ebpf/flamegraph"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/symbol"
)

// leastMemory is the lowest memory_limit: a profiler takes more with nothing to do.
const leastMemory = 16 << 20

// What may take less memory, in the order in which it does: what costs least to make again comes first.
const (
	tableCache   = iota // unwind tables, in the kernel; memory that they have taken stays taken
	symbolCache         // symbol tables
	historyCache        // profiles that the page keeps
	numCaches
)

// caches are bytes of each, in use or at most.
type caches [numCaches]int64

// leastCaches are always left: with less, all would be read again in each round.
var leastCaches = caches{tableCache: ebpf.MinTableBytes, symbolCache: 2 << 20, historyCache: 1 << 20}

// mostCaches are the bounds without a limit.
func mostCaches(a *Settings) caches {
	return caches{
		tableCache: int64(a.UnwindTableMemory), symbolCache: symbol.DefaultTableBytes,
		historyCache: flamegraph.DefaultMaxBytes,
	}
}

// Caches grow again while the memory is below a share of the limit, up to another share.
const (
	roomBelow = 0.8
	growTo    = 0.9
)

// memory keeps what profiling takes below a limit, by bounds of what is kept to be fast and to be looked at.
type memory struct {
	limit int64  // bytes; 0: none
	most  caches // without a limit
	bound caches // now
	taken int64  // at the end of the last round
}

// setLimit takes a limit into use, 0 for none.
func (m *memory) setLimit(limit int64, most caches) {
	if limit != m.limit || most != m.most {
		*m = memory{limit: limit, most: most, bound: most}
	}
}

// exceeded reports whether taken bytes are more than the limit.
func (m *memory) exceeded(taken int64) bool { return m.limit > 0 && taken > m.limit }

// round takes what was in use at the end of a round, caches among it, and says whether bounds have changed.
func (m *memory) round(taken int64, used caches) (changed bool) {
	before := m.bound
	m.taken = taken
	switch limit := float64(m.limit); {
	case m.exceeded(taken):
		m.shrink(taken-m.limit, used)
	case m.limit > 0 && float64(taken) < limit*roomBelow:
		m.grow(int64(limit*growTo) - taken)
	}
	return m.bound != before
}

// shrink lowers bounds so that excess bytes of what is used go. Unwind tables grow no more.
func (m *memory) shrink(excess int64, used caches) {
	for i := range m.bound {
		to := used[i]
		if i != tableCache {
			to -= excess
		}
		to = max(to, leastCaches[i])
		excess -= max(0, used[i]-to)
		m.bound[i] = min(m.bound[i], to)
	}
}

// grow raises bounds by room bytes at most, the last lowered first.
func (m *memory) grow(room int64) {
	for i := numCaches - 1; i >= 0; i-- {
		by := min(room, m.most[i]-m.bound[i])
		m.bound[i] += by
		room -= by
	}
}

// keep makes options take no more than the bounds.
func (m *memory) keep(o *ebpf.Options) {
	o.TableBytes, o.SymbolBytes = int(m.bound[tableCache]), int(m.bound[symbolCache])
}

// String says what the limit does; it is empty if it does nothing.
func (m *memory) String() string {
	switch {
	case m.exceeded(m.taken):
		return fmt.Sprintf("above the memory_limit of %s: it takes %s", mebibytes(m.limit), mebibytes(m.taken))
	case m.limit == 0 || m.bound == m.most:
		return ""
	default:
		return fmt.Sprintf("at most %s of symbols and %s of profiles are kept, for the memory_limit of %s: it takes %s",
			mebibytes(m.bound[symbolCache]), mebibytes(m.bound[historyCache]), mebibytes(m.limit), mebibytes(m.taken))
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// ownMemory returns how many bytes of memory this process has (its RSS); 0 if that cannot be read.
func ownMemory() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text) // see proc_pid_statm(5)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
