package ebpf

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/flame/server"
)

// leastMemory is the lowest memory_limit: an idle profiler already takes more.
const leastMemory = 16 << 20

// Caches that can shrink, in the order in which they do: the cheapest to rebuild first.
const (
	tableCache   = iota // unwind tables, in the kernel; their memory is never freed
	symbolCache         // symbol tables
	historyCache        // profiles that the page keeps
	numCaches
)

// caches are sizes or bounds in bytes, by cache.
type caches [numCaches]int64

// leastCaches are the lowest bounds: below them, all contents would be read again in each round.
var leastCaches = caches{tableCache: ebpf.MinTableBytes, symbolCache: 2 << 20, historyCache: 1 << 20}

// mostCaches are the bounds if there is no limit.
func mostCaches(a *Settings) caches {
	return caches{
		tableCache: int64(a.UnwindTableMemory), symbolCache: symbol.DefaultTableBytes,
		historyCache: server.DefaultMaxBytes,
	}
}

// Caches grow again while the memory is below the first share of the limit, up to the second share.
const (
	roomBelow = 0.8
	growTo    = 0.9
)

// memory keeps the profiler's memory below a limit by bounding its caches and its history.
type memory struct {
	limit int64  // bytes; 0: none
	most  caches // bounds without a limit
	bound caches // current bounds
	taken int64  // at the end of the last round
}

// setLimit applies a limit, 0 for none.
func (m *memory) setLimit(limit int64, most caches) {
	if limit != m.limit || most != m.most {
		*m = memory{limit: limit, most: most, bound: most}
	}
}

// exceeded reports whether taken bytes are more than the limit.
func (m *memory) exceeded(taken int64) bool { return m.limit > 0 && taken > m.limit }

// round takes the memory in use at the end of a round, and the part in caches, and reports whether bounds have changed.
func (m *memory) round(taken int64, used caches) (changed bool) {
	before := m.bound
	m.taken = taken
	switch limit := float64(m.limit); {
	case m.exceeded(taken):
		m.shrink(taken-m.limit, used)
	case m.limit > 0 && float64(taken) < limit*roomBelow:
		m.growTo(int64(limit*growTo) - taken)
	}
	return m.bound != before
}

// shrink lowers bounds so that caches lose excess bytes of their contents. Unwind tables only stop growing.
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

// growTo raises bounds by room bytes at most, starting with the last cache.
func (m *memory) growTo(room int64) {
	for i := numCaches - 1; i >= 0; i-- {
		by := min(room, m.most[i]-m.bound[i])
		m.bound[i] += by
		room -= by
	}
}

// keepLimits sets the options to the current bounds.
func (m *memory) keepLimits(o *ebpf.Options) {
	o.TableBytes, o.SymbolBytes = int(m.bound[tableCache]), int(m.bound[symbolCache])
}

// String describes the effect of the limit; it is empty if there is none.
func (m *memory) String() string {
	switch {
	case m.exceeded(m.taken):
		return fmt.Sprintf("above the memory_limit of %s: the process has %s", mebibytes(m.limit), mebibytes(m.taken))
	case m.limit == 0 || m.bound == m.most:
		return ""
	default:
		return fmt.Sprintf("at most %s of symbols and %s of profiles stay in memory, to keep the memory_limit of %s: the "+
			"process has %s",
			mebibytes(m.bound[symbolCache]), mebibytes(m.bound[historyCache]), mebibytes(m.limit), mebibytes(m.taken))
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// ownMemory returns the memory of this process (its RSS) in bytes; 0 if it cannot be read.
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
