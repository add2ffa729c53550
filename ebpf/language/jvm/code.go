package jvm

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// CodePath is the path of the executables that stand for the code caches of VMs.
const CodePath = "[hotspot]"

// codeCache is the requested parts of the code that a VM makes. It implements language.Code.
type codeCache struct {
	vm    *VM
	base  uint64                 // of ELF virtual address 0
	shift uint8                  // of pages
	pages map[uint64]*Page       // built pages, by number
	gone  [2]map[uint64]gonePage // pages forgotten since the last Trim, and before that

	busy time.Time // start of the time in which the process's memory is unreadable; zero if it is readable

	last  unwind.CodeID                        // the last number given out
	known [2]map[*Code]*places                 // pieces with samples since the last Trim, and before that
	lines [2]map[unwind.CodeID][]language.Line // likewise
	left  int                                  // remaining bytes of maxRead
	room  int                                  // remaining bytes of maxRemembered
	all   *Remembered
	used  [2]int // bytes of all that known and lines take, with the same indexes

	barrierOf *Code // the piece of code that contains barrier, see Frozen
	barrier   uint64
	closed    bool
}

// gonePage is a page that was forgotten. Samples that were taken before at used its rows.
type gonePage struct {
	*Page
	at uint64 // CLOCK_MONOTONIC, ns
}

// Remembered counts the bytes that are remembered for the places in the code of all VMs.
type Remembered struct{ bytes atomic.Int64 }

// MaxRemembered bounds these bytes.
const MaxRemembered = 64 << 20

// places is the resolved places in a piece of code.
type places struct {
	numbers map[uint64]unwind.CodeID // by address
	scopes  map[int64]unwind.CodeID
	names   map[uint64]methodName // by Method
	debug   *debugInfo
}

// Bounds on the bytes that are read from a process, and on the bytes that are remembered, between two calls of Trim.
// Over a bound, and over MaxRemembered, a place gets only the name of its piece of code.
const (
	maxRead       = 1 << 30
	maxRemembered = 16 << 20
)

func newCodeCache(vm *VM, all *Remembered) *codeCache {
	c := &codeCache{vm: vm, base: language.Base(vm.low), pages: map[uint64]*Page{}, last: unwind.UnknownCode, all: all}
	c.Trim(time.Time{})
	return c
}

// Path implements language.Code.
func (c *codeCache) Path() string { return CodePath }

// Language implements language.Code.
func (c *codeCache) Language() string { return Name }

// Bounds implements language.Code.
func (c *codeCache) Bounds() (low, high uint64) { return c.vm.Bounds() }

// Page implements language.RowSource.
func (c *codeCache) Page(n uint64, shift uint8) (*unwind.Page, error) {
	old := c.pages[n]
	if old == nil {
		old = c.gone[0][n].Page
	}
	built, err := c.vm.Page(n, shift, c.base, old)
	if err != nil {
		return nil, err
	}
	c.pages[n], c.shift = built, shift
	return built.Rows, nil
}

// CallFrame implements language.RowSource: the VM has no call frame information.
func (c *codeCache) CallFrame(uint64) (unwind.CallFrame, bool, error) {
	return unwind.CallFrame{}, false, nil
}

// Changed implements language.RowSource.
func (c *codeCache) Changed(pages []uint64) []uint64 {
	among := map[uint64]*Page{}
	for _, n := range pages {
		if p := c.pages[n]; p != nil {
			among[n] = p
		}
	}
	changed, err := c.vm.Changed(among)
	switch now := time.Now(); {
	case err == nil:
		c.busy = time.Time{}
	case c.busy.IsZero():
		c.busy = now
	case now.Sub(c.busy) >= maxBelieved:
		for _, n := range pages { // the time since which they are stale is unknown
			delete(c.pages, n)
		}
		return pages
	}
	c.Forget(changed)
	return changed
}

// maxBelieved is how long pages are trusted while the memory of the process cannot be read, from the first failed read.
const maxBelieved = 5 * time.Second

// Trim implements language.RowSource. It forgets data that was not requested since the call before.
func (c *codeCache) Trim(time.Time) {
	c.known[1], c.lines[1], c.gone[1] = c.known[0], c.lines[0], c.gone[0]
	c.known[0], c.lines[0] = map[*Code]*places{}, map[unwind.CodeID][]language.Line{}
	c.gone[0] = map[uint64]gonePage{}
	c.left, c.room = maxRead, maxRemembered
	c.all.bytes.Add(-int64(c.used[1]))
	c.used[1], c.used[0] = c.used[0], 0
}

// Close implements language.Code.
func (c *codeCache) Close() {
	c.Trim(time.Time{})
	c.Trim(time.Time{})
	c.closed = true
}

// takeBytes reserves bytes to remember until Trim was called twice. It returns false if there is not enough room.
func (c *codeCache) takeBytes(bytes int) bool {
	if c.closed || bytes > c.room || c.all.bytes.Load()+int64(bytes) > MaxRemembered {
		return false
	}
	c.room -= bytes
	c.used[0] += bytes
	c.all.bytes.Add(int64(bytes))
	return true
}

// isFull reports whether there is no room to remember another place.
func (c *codeCache) isFull() bool {
	return c.room < placeBytes || c.all.bytes.Load() >= MaxRemembered-placeBytes
}

// Built implements language.Code.
func (c *codeCache) Built() []uint64 { return slices.Collect(maps.Keys(c.pages)) }

// Forget implements language.Code.
func (c *codeCache) Forget(pages []uint64) {
	now := clock.Monotonic()
	for _, n := range pages {
		if p := c.pages[n]; p != nil {
			c.gone[0][n] = gonePage{p, now}
			delete(c.pages, n)
		}
	}
}

// findCode returns the code at an address at a time, or nil if it is unknown.
func (c *codeCache) findCode(vaddr, at uint64) *Code {
	n, addr := vaddr>>c.shift, vaddr+c.base
	if p := c.pages[n]; p != nil {
		if piece := p.Find(addr); piece != nil {
			return piece
		}
	}
	for _, pages := range c.gone {
		if p, ok := pages[n]; ok && at <= p.at {
			return p.Find(addr)
		}
	}
	return nil
}

// Identify implements language.Code.
func (c *codeCache) Identify(vaddr, at uint64) unwind.CodeID {
	piece := c.findCode(vaddr, at)
	if piece == nil {
		return unwind.UnknownCode
	}
	addr := vaddr + c.base
	p := c.places(piece)
	if id, ok := p.numbers[addr]; ok && c.keepCode(id) {
		return id
	}
	if len(p.numbers) >= maxPlaces {
		p.numbers, p.scopes = map[uint64]unwind.CodeID{}, map[int64]unwind.CodeID{}
	}
	id, whole := c.number(p, piece, addr)
	if whole && c.takeBytes(placeBytes) {
		p.numbers[addr] = id
	}
	return id
}

// Evaluates implements language.Code.
func (c *codeCache) Evaluates(vaddr uint64) bool {
	page := c.pages[vaddr>>c.shift]
	if page == nil {
		return false
	}
	piece := page.Find(vaddr + c.base)
	return piece != nil && framed(piece.rows, int(vaddr+c.base-piece.Start))
}

const (
	maxPlaces  = 512 // remembered in a piece of code; in a short time, samples hit fewer places
	placeBytes = 128 // approximate memory of a place
	lineBytes  = 64  // approximate memory of a language.Line, without its strings
)

// places returns the known places in a piece of code.
func (c *codeCache) places(piece *Code) *places {
	p := c.known[0][piece]
	if p == nil {
		if p = c.known[1][piece]; p == nil || !c.takeBytes(p.bytes()) {
			p = &places{
				numbers: map[uint64]unwind.CodeID{}, scopes: map[int64]unwind.CodeID{}, names: map[uint64]methodName{},
			}
		}
		c.known[0][piece] = p
	}
	return p
}

// bytes returns the approximate memory that p takes.
func (p *places) bytes() int {
	return placeBytes*(len(p.numbers)+len(p.scopes)) + lineBytes*len(p.names)
}

// bytesOf returns the approximate memory that lines take.
func bytesOf(lines []language.Line) (bytes int) {
	for _, l := range lines {
		bytes += lineBytes + len(l.Function) + len(l.File)
	}
	return bytes
}

// keepCode keeps the lines of a number until Trim was called twice. It returns false if they were forgotten.
func (c *codeCache) keepCode(id unwind.CodeID) bool {
	if _, ok := c.lines[0][id]; ok {
		return true
	}
	lines, ok := c.lines[1][id]
	if ok = ok && c.takeBytes(bytesOf(lines)); ok {
		c.lines[0][id] = lines
	}
	return ok
}

// number returns the number of a place that has none yet. whole reports whether the place is fully resolved.
func (c *codeCache) number(p *places, piece *Code, addr uint64) (id unwind.CodeID, whole bool) {
	scope, lines := c.readScopes(p, piece, addr)
	whole = scope != busyScope
	if id, ok := p.scopes[scope]; ok && c.keepCode(id) {
		return id, whole
	}
	if c.last++; c.last <= unwind.UnknownCode { // all numbers were used: wrap around
		c.last = unwind.UnknownCode + 1
	}
	if len(lines) == 0 {
		lines = []language.Line{{Function: piece.Name}}
	}
	p.scopes[scope], c.lines[0][c.last] = c.last, lines
	return c.last, whole
}

// readScopes reads the methods at a place, unless its scope already has a number. It returns no lines if the code is
// gone, if it is not a method's code, or if the memory cannot be read now.
func (c *codeCache) readScopes(p *places, piece *Code, addr uint64) (scope int64, lines []language.Line) {
	if piece.block.method == 0 || !c.vm.layout.debug.known || c.left <= 0 || c.isFull() {
		return noScope, nil
	}
	view := &cached{r: c.vm.memory, chunks: map[int64][]byte{}}
	m := &memory{r: view}
	defer func() { c.left -= len(view.chunks) * chunkSize }()
	if p.debug == nil {
		info := c.vm.debugInfo(m, piece)
		if m.err != nil {
			return m.noScope(), nil
		}
		p.debug = &info
	}
	scope = c.vm.scopeAt(m, piece, *p.debug, addr)
	if id, ok := p.scopes[scope]; ok && m.err == nil && c.keepCode(id) {
		return scope, nil
	}
	switch scope {
	case noScope:
		lines = []language.Line{c.vm.lineOf(m, piece.block.method, nowhere, p.names)}
	case entryScope:
		lines = []language.Line{c.vm.lineOf(m, piece.block.method, atEntry, p.names)}
	default:
		lines = c.vm.lines(m, *p.debug, scope, p.names)
	}
	if m.err != nil || !c.vm.sameBlock(m, piece) {
		return m.noScope(), nil
	}
	if !c.takeBytes(bytesOf(lines)) {
		return noScope, nil
	}
	return scope, lines
}

// noScope returns the scope of a place that could not be read.
func (m *memory) noScope() int64 {
	if errors.Is(m.err, language.ErrBusy) {
		return busyScope
	}
	return noScope
}

// Lines implements language.Code.
func (c *codeCache) Lines(id unwind.CodeID) []language.Line {
	for _, lines := range c.lines {
		if l, ok := lines[id]; ok {
			return l
		}
	}
	return nil
}
