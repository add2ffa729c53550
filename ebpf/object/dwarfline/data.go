package dwarfline

import (
	"errors"
	"runtime/debug"
	"sync"
	"time"
)

// Frame is a function at an address, or a call that was inlined there.
type Frame struct {
	Function string // linkage name (mangled) if there is one, else name; "" if unknown
	File     string // joined with its directories, not cleaned; "" if unknown
	Line     int    // 0 if unknown

	StartLine int // line of the declaration of Function; 0 if unknown

	// Linkage says that Function is the linker's name. It is false for C++ functions that no other
	// file can call: their symbol, if there is one, has the full name.
	Linkage bool
}

// Data looks up addresses of one executable or library. Its methods may be called concurrently, but
// run one at a time.
type Data struct {
	opts Options

	mu    sync.Mutex
	main  *file
	index *index // nil before the first lookup
	cache *unitCache
	err   error  // the first error of the index
	read  uint64 // bytes of units read since the pages were dropped

	sup, pkg *other
	packages *cuIndex // of pkg
	closed   bool

	allowance allowance
}

// other is another file, which get opens on first use.
type other struct {
	open func() (*Sections, error)
	done bool
	file *file
	err  error
}

func (o *other) openFile() (*file, error) {
	if !o.done && o.open != nil {
		var s *Sections
		if s, o.err = o.open(); s != nil {
			o.file = &file{Sections: s}
		}
	}
	o.done = true
	return o.file, o.err
}

// New returns the Data of a file with these sections. It takes ownership of the sections and does
// not read them yet. The error is ErrNoInfo if there are no entries; then the caller keeps the
// sections.
func New(s *Sections, opts Options) (*Data, error) {
	if len(s.Info) == 0 || len(s.Abbrev) == 0 {
		return nil, ErrNoInfo
	}
	if opts.CacheBytes == 0 {
		opts.CacheBytes = DefaultCacheBytes
	}
	return &Data{
		opts: opts, main: &file{Sections: s}, cache: newUnitCache(opts.CacheBytes),
		allowance: allowance{left: MaxFileWork, at: time.Now()},
		sup:       &other{open: opts.Supplementary}, pkg: &other{open: opts.Package},
	}, nil
}

// Close releases all sections.
func (d *Data) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	d.cache.clear()
	for _, f := range []*file{d.main, d.sup.file, d.pkg.file} {
		if f != nil {
			f.close()
		}
	}
}

// Empty reports whether a lookup found no unit with addresses that could be read.
func (d *Data) Empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.index != nil && len(d.index.ranges) == 0 && len(d.index.unranged) == 0
}

// Bytes returns the size of the index and of the cached units. It does not include the sections.
func (d *Data) Bytes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.cache.used
	if d.index != nil {
		n += d.index.bytes()
	}
	for _, f := range []*file{d.main, d.sup.file, d.pkg.file} {
		if f != nil {
			n += cap(f.units) * 8
		}
	}
	return n
}

// Frames returns the function at an ELF virtual address and the functions into which it was
// inlined. The innermost function comes first, with the file and line of the address; each caller
// follows with the file and line of the call. There are no frames if no unit covers the address.
//
// An error describes damaged or missing data; the frames hold the data that could be read.
func (d *Data) Frames(addr uint64) (frames []Frame, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("DWARF data is closed")
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if errors.Is(err, ErrFault) {
			d.err = firstError(d.err, err)
		}
	}()
	defer recoverFault(&err)
	defer d.dropPages()
	number, ok := d.unitNumber(addr)
	if !ok {
		return nil, d.err
	}
	tooMuch := d.allowance.workWithin(time.Now(), func(w *work) {
		var h *hitUnit
		if h, err = d.hitUnitAt(d.main.units[number], w); h != nil {
			frames, err = d.framesIn(h, addr, w)
		}
	})
	return frames, firstError(tooMuch, err)
}

// pagesOfFrame is the number of bytes that the kernel maps for the names and ranges of a frame: 64
// KiB around each read.
const pagesOfFrame = 128 << 10

// maxResident is the number of bytes of mapped sections that may be read before their pages are
// dropped.
const maxResident = 32 << 20

// Trim drops the pages of the mapped sections that were read for names. Later lookups read them
// again.
func (d *Data) Trim() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed && d.read > 0 {
		d.dropAll()
	}
}

func (d *Data) dropPages() {
	if d.read >= maxResident {
		d.dropAll()
	}
}

func (d *Data) dropAll() {
	d.read = 0
	for _, f := range []*file{d.main, d.sup.file, d.pkg.file} {
		if f != nil {
			f.dropPages()
		}
	}
}

// recoverFault turns the fault of a read past the end of a truncated mapped file into an error.
// Other panics continue.
func recoverFault(err *error) {
	p := recover()
	if p == nil {
		return
	}
	if fault, ok := p.(interface {
		error
		Addr() uintptr
	}); ok && fault.Addr() != 0 {
		*err = ErrFault
		return
	}
	panic(p)
}

// unitNumber returns the number of the unit that covers an address. The first calls read the index.
func (d *Data) unitNumber(addr uint64) (number uint32, ok bool) {
	if d.index == nil {
		d.index = &index{} // in case that reading the index faults
		tooMuch := d.allowance.workWithin(time.Now(), func(w *work) { d.index, d.err = newIndex(d.main, w) })
		d.err = firstError(d.err, tooMuch)
		d.read = maxResident
	}
	number, ok = d.index.findUnit(addr)
	if !ok && len(d.index.unranged) > 0 {
		tooMuch := d.allowance.workWithin(time.Now(), func(w *work) {
			d.err = firstError(d.err,
				d.index.addFunctions(d.main, w))
		})
		d.err = firstError(d.err, tooMuch)
		number, ok = d.index.findUnit(addr)
	}
	return number, ok
}

// framesIn returns the frames of a unit at an address.
func (d *Data) framesIn(h *hitUnit, addr uint64, w *work) ([]Frame, error) {
	var at Frame
	first := h.err
	if h.lines != nil {
		r, ok, err := h.lines.rowAt(addr, w)
		first = firstError(first, err)
		if ok {
			at.Line = lineNumber(r.line)
			at.File, err = h.lines.fileName(r.file, d.supplementary)
			first = firstError(first, err)
		}
	}
	function, ok, err := functionAt(h.functions, addr, w)
	first = firstError(first, err)
	if !ok {
		if at == (Frame{}) {
			return nil, first
		}
		return []Frame{at}, first
	}
	calls, err := h.entries.callsAt(function, addr, w)
	first = firstError(first, err)
	frames := make([]Frame, 0, len(calls))
	d.read += uint64(1+len(calls)) * pagesOfFrame
	for _, call := range calls {
		var e entry
		c := h.entries.cursor(call)
		steps := h.entries.abbrevs.readEntry(&c, h.entries.encoding, &e)
		first = firstError(first, firstError(c.err, w.spend(steps)))
		first = firstError(first, d.describe(&at, h.entries, &e, w))
		frames = append(frames, at)
		at, err = d.callSite(h, &e)
		first = firstError(first, err)
	}
	return frames, first
}

// callSite returns the file and line of the call of an inlined function.
func (d *Data) callSite(h *hitUnit, e *entry) (Frame, error) {
	var at Frame
	var err error
	if v, ok := e.getField(fieldCallLine); ok {
		at.Line = lineNumber(v.n)
	}
	if v, ok := e.getField(fieldCallFile); ok && h.lines != nil {
		at.File, err = h.lines.fileName(v.n, d.supplementary)
	}
	return at, err
}

// lineNumber converts a line number, and returns 0 if it is larger than any file's.
func lineNumber(n uint64) int {
	if n > 1<<31-1 {
		return 0
	}
	return int(n)
}
