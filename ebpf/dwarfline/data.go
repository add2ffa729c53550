package dwarfline

import (
	"errors"
	"runtime/debug"
	"sync"
	"time"
)

// Frame is a function at an address.
type Frame struct {
	Function string // its linkage name, which is mangled, or else its name; "" if no entry says
	File     string // joined with its directories, not cleaned; "" if unknown
	Line     int    // 0 if unknown

	StartLine int // where Function is declared; 0 if unknown

	// Linkage says that Function is what the linker calls it. It is false for
	// functions of C++ that no other file can call: their symbol, if there is
	// one, has the name in full.
	Linkage bool
}

// Data answers for the addresses of one executable or library. Its methods may be
// called concurrently; one at a time is at work.
type Data struct {
	opts Options

	mu    sync.Mutex
	main  *file
	index *index // nil before the first lookup
	cache *unitCache
	err   error  // the first one that the index met
	read  uint64 // bytes of units read since the pages were dropped

	sup, pkg *other
	packages *cuIndex // of pkg
	closed   bool

	allowance allowance
}

// other is a file that is opened when it is needed.
type other struct {
	open func() (*Sections, error)
	done bool
	file *file
	err  error
}

func (o *other) get() (*file, error) {
	if !o.done && o.open != nil {
		var s *Sections
		if s, o.err = o.open(); s != nil {
			o.file = &file{Sections: s}
		}
	}
	o.done = true
	return o.file, o.err
}

// New returns the Data of a file with these sections, which it owns from then on.
// Nothing is read yet. ErrNoInfo if there are no entries; the caller keeps the
// sections then.
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

// Empty reports whether a lookup has shown that no unit covers any address, or none that
// could be read.
func (d *Data) Empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.index != nil && len(d.index.ranges) == 0 && len(d.index.unranged) == 0
}

// Bytes returns the memory held besides the sections: the index and the units
// that were hit.
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

// Frames returns the function at an ELF virtual address and those that it was
// inlined into: the innermost first, with the file and line of the address, then
// the callers with those of the calls. None if no unit covers the address.
//
// An error says what is damaged or missing; the frames hold what could be read
// in spite of it.
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
	tooMuch := d.allowance.work(time.Now(), func(w *work) {
		var h *hitUnit
		if h, err = d.hit(d.main.units[number], w); h != nil {
			frames, err = d.framesIn(h, addr, w)
		}
	})
	return frames, firstError(tooMuch, err)
}

// pagesOfFrame is what is mapped for the names and ranges of a frame: the kernel maps
// 64 KiB around each place that is read.
const pagesOfFrame = 128 << 10

// maxResident is how much of mapped sections is read before their pages are
// given back.
const maxResident = 32 << 20

// Trim gives back the memory that is only needed while names are asked for: what was
// read of mapped sections. It is read again when it is wanted.
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
			f.drop()
		}
	}
}

// recoverFault makes an error of the fault that reading a mapped file gives
// where it was truncated. Other panics go on.
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

// unitNumber returns the number of the unit that covers an address. What it reads for
// that is read once.
func (d *Data) unitNumber(addr uint64) (number uint32, ok bool) {
	if d.index == nil {
		d.index = &index{} // should the reading of it fault
		tooMuch := d.allowance.work(time.Now(), func(w *work) { d.index, d.err = newIndex(d.main, w) })
		d.err = firstError(d.err, tooMuch)
		d.read = maxResident
	}
	number, ok = d.index.find(addr)
	if !ok && len(d.index.unranged) > 0 {
		tooMuch := d.allowance.work(time.Now(), func(w *work) {
			d.err = firstError(d.err,
				d.index.addFunctions(d.main, w))
		})
		d.err = firstError(d.err, tooMuch)
		number, ok = d.index.find(addr)
	}
	return number, ok
}

// framesIn returns what a unit says of an address.
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

// callSite returns where an inlined function was called.
func (d *Data) callSite(h *hitUnit, e *entry) (Frame, error) {
	var at Frame
	var err error
	if v, ok := e.get(fieldCallLine); ok {
		at.Line = lineNumber(v.n)
	}
	if v, ok := e.get(fieldCallFile); ok && h.lines != nil {
		at.File, err = h.lines.fileName(v.n, d.supplementary)
	}
	return at, err
}

// lineNumber returns a line of the file's, 0 if no file has as many.
func lineNumber(n uint64) int {
	if n > 1<<31-1 {
		return 0
	}
	return int(n)
}
