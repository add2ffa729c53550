// Package symbol names addresses: those in executables and libraries by their
// symbol tables and separate debug files, those in the kernel by kallsyms.
//
// Return addresses point after the call, so "address minus one" has to happen
// somewhere: it happens in CodeAddress and nowhere else.
package symbol

import (
	"path"
	"strconv"
	"sync"

	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/limit"
)

// Object is an executable or library whose addresses are to be named. It must
// not change while the Symbolizer knows it.
type Object struct {
	ID      uint32 // the caller's number; its names are cached until Forget(ID)
	Path    string // as the process sees it; "[vdso]" for the vdso
	BuildID string // lower-case hex, "" if unknown
	Owner   uint32 // user ID of the process
	Root    string // directory that is the process's root, such as /proc/PID/root; "" is this host's. May be gone
	// Open opens the ELF image. It is called when an address of the object is
	// named for the first time, and again if its table was dropped meanwhile.
	// The Symbolizer closes what it returns.
	Open func() (*elffile.File, error)
	// Source is the object whose symbols and debug file name this one's code too, for
	// their code is equal; nil: its own. Objects of one source share a symbol table. A
	// build ID is not enough for that: anybody can write one into a file.
	Source *Object
}

// source is the object whose file is read for o's names.
func (o *Object) source() *Object {
	if o.Source != nil {
		return o.Source
	}
	return o
}

// Kind says how a Frame got its name.
type Kind uint8

// The kinds of frame.
const (
	Unknown Kind = iota // no name: Function is made from the file and the address
	Native              // a function of an executable or library
	Kernel              // a function of the kernel or of one of its modules
)

// Frame is one function at an address. All strings are valid UTF-8.
type Frame struct {
	Function  string // mangled, as in the symbol table; see DemangleMode.Apply
	File      string // source file if known; in the kernel "[kernel]" or "[module]"
	StartLine int    // of the function's declaration; 0 if unknown
	Line      int    // 0 if unknown
	Kind      Kind
}

// Defaults of Options.
const (
	DefaultTableBytes  = 32 << 20
	DefaultCacheFrames = 64 << 10
	DefaultDebugDir    = "/usr/lib/debug"
	DefaultKallsyms    = "/proc/kallsyms"
)

// Options configure a Symbolizer. The zero value is useful.
type Options struct {
	// memory for symbol tables, the least recently used go first and the last one stays; 0: DefaultTableBytes
	TableBytes  int
	CacheFrames int            // addresses whose names are remembered; 0: DefaultCacheFrames
	DebugDirs   []string       // directories of separate debug files; nil: DefaultDebugDir
	Kallsyms    string         // file of kernel symbols; "": DefaultKallsyms
	Fetcher     Fetcher        // brings debug files from elsewhere; nil: nobody does
	Files       *filework.Pool // looks for debug files; nil: one of its own
}

func (o *Options) setDefaults() {
	if o.TableBytes == 0 {
		o.TableBytes = DefaultTableBytes
	}
	if o.CacheFrames == 0 {
		o.CacheFrames = DefaultCacheFrames
	}
	if o.DebugDirs == nil {
		o.DebugDirs = []string{DefaultDebugDir}
	}
	if o.Files == nil {
		o.Files = &filework.Pool{}
	}
	if o.Kallsyms == "" {
		o.Kallsyms = DefaultKallsyms
	}
}

// Symbolizer names addresses. Its methods may be called concurrently.
type Symbolizer struct {
	options Options
	tables  *tableCache
	frames  *frameCache
	kernel  kernel
	finder  *debugFinder
	owners  packages
	limits  *limit.Counter
}

// unpackRate is how many bytes a second of compressed debug info are decompressed in the
// long run, which takes about a hundredth of a CPU.
const unpackRate = 2 << 20

// New returns a Symbolizer. It reads nothing yet.
func New(options Options) *Symbolizer {
	options.setDefaults()
	finder := &debugFinder{dirs: options.DebugDirs, work: options.Files, remote: options.Fetcher,
		sums: newCheckSums(MaxLinked)}
	finder.spill.Rate = rate.NewLimiter(unpackRate, elffile.DefaultSpill)
	limits := &limit.Counter{}
	tables := newTableCache(options.TableBytes, func(o *Object) (*names, Status) { return load(o, finder) })
	tables.limits = limits
	return &Symbolizer{
		options: options,
		tables:  tables,
		frames:  newFrameCache(options.CacheFrames),
		kernel:  kernel{path: options.Kallsyms},
		finder:  finder,
		limits:  limits,
	}
}

// Frames names the ELF virtual address vaddr of o: the innermost function first,
// then those it was inlined into; always at least one. returnAddress says that
// vaddr is where a call returns to, so that the call just before it is meant.
//
// An address that no symbol covers gives one frame of kind Unknown whose function is the
// file's name and where call frame information says that the function begins,
// "libx.so+0x1230", so that all addresses of a function have one name; the CodeAddress
// itself where nothing is said. It is never the function before it. The first call for an
// object reads its symbols, which may take a second for the largest. The result is shared:
// do not modify it.
func (s *Symbolizer) Frames(o *Object, vaddr uint64, returnAddress bool) []Frame {
	at := CodeAddress(vaddr, returnAddress)
	if frames := s.frames.get(o.ID, at); frames != nil {
		return frames
	}
	known := s.tables.frames(o, at)
	frames := known.frames
	if len(frames) == 0 {
		frames = unnamed(o, known.start)
	}
	s.frames.put(o.ID, at, frames)
	return frames
}

// Unnamed is what Frames returns for an address that neither a symbol nor call frame information covers.
func Unnamed(o *Object, vaddr uint64, returnAddress bool) []Frame {
	return unnamed(o, CodeAddress(vaddr, returnAddress))
}

func unnamed(o *Object, at uint64) []Frame {
	return []Frame{{Function: unknownName(o.Path, at), Kind: Unknown}}
}

// SetTableBytes changes Options.TableBytes, 0 for the default, and with it in proportion how many addresses' names are
// remembered. What is beyond the limit goes.
func (s *Symbolizer) SetTableBytes(bytes int) {
	if bytes <= 0 {
		bytes = s.options.TableBytes
	}
	s.tables.setBudget(bytes)
	s.frames.setSize(int(float64(s.options.CacheFrames) * min(1, float64(bytes)/float64(s.options.TableBytes))))
}

// Trim gives back memory that is only needed while names are asked for.
func (s *Symbolizer) Trim() { s.tables.trim() }

// CodeAddress returns the address of the code that a frame is in: addr itself
// or, if a call returns to addr, the last byte of that call. The call may be the
// last instruction of its function.
func CodeAddress(addr uint64, returnAddress bool) uint64 {
	if returnAddress && addr > 0 {
		return addr - 1
	}
	return addr
}

// unknownName returns "basename+0xvaddr".
func unknownName(file string, vaddr uint64) string {
	address := "0x" + strconv.FormatUint(vaddr, 16)
	if file == "" {
		return address
	}
	return validUTF8(path.Base(file)) + "+" + address
}

// Forget drops what is remembered of the object with that ID, so that the ID can
// be used for another one: its frames, and its table, also where it is the source of others.
func (s *Symbolizer) Forget(id uint32) {
	s.tables.forget(id)
	s.frames.forget(id)
}

// Forgotten returns the IDs of the objects whose names may be others since the last call: by Forget, or because a debug
// file was found. It is for who keeps what Frames has returned.
func (s *Symbolizer) Forgotten() map[uint32]bool { return s.frames.takeForgotten() }

// Status says how the symbols of an object were found; ok is false if no
// address of it has been named yet, or if its table was dropped since.
func (s *Symbolizer) Status(o *Object) (status Status, ok bool) { return s.tables.status(o) }

// Problems returns by path which executables in use have debug info of which a part
// is missing or cannot be read, such as a .dwo file or dwz's supplementary file.
func (s *Symbolizer) Problems() map[string]error { return s.tables.problems() }

// LimitHits returns how often readers of foreign files stopped at a bound.
func (s *Symbolizer) LimitHits() map[limit.Reader]uint64 { return s.limits.Hits() }

// Close ends what takes long, such as reading debug files. Names that are asked for
// afterwards may be missing.
func (s *Symbolizer) Close() {
	s.finder.sums.ended.Store(true)
	s.finder.spill.End()
}

// Stats are sizes of what a Symbolizer holds.
type Stats struct {
	Tables     int // symbol tables of objects
	TableBytes int // their memory
	Frames     int // addresses in the cache
}

// Stats returns the present sizes.
func (s *Symbolizer) Stats() Stats {
	tables, bytes := s.tables.size()
	return Stats{Tables: tables, TableBytes: bytes, Frames: s.frames.size()}
}

// Kernel names an address in the kernel. File is "[kernel]", or the module's
// name in brackets. An unknown address gives kind Unknown and the CodeAddress
// in hex; KernelStatus says why.
func (s *Symbolizer) Kernel(addr uint64, returnAddress bool) Frame {
	at := CodeAddress(addr, returnAddress)
	if f, ok := s.kernel.made.frame(at); ok {
		return f
	}
	return s.kernel.table().frame(at)
}

// KernelSymbol reports code that the kernel made while it runs, or dropped. What
// was dropped keeps its name until other code is in its place, for samples that
// are not named yet.
func (s *Symbolizer) KernelSymbol(k KernelSymbol) { s.kernel.made.add(k) }

// KernelStatus says how the kernel's symbols were read.
func (s *Symbolizer) KernelStatus() Status { return s.kernel.table().status }

// RefreshKernel reads the kernel's symbols again, for modules and BPF programs
// that came or went. If that fails the old ones stay.
func (s *Symbolizer) RefreshKernel() error { return s.kernel.refresh() }

// kernel holds the kernel's symbols, read when first asked for.
type kernel struct {
	path string
	made madeSymbols

	mu      sync.Mutex
	current *kernelTable
}

func (k *kernel) table() *kernelTable {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		k.current = readKallsyms(k.path)
	}
	return k.current
}

func (k *kernel) refresh() error {
	fresh := readKallsyms(k.path)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil || fresh.status.Err == nil {
		k.current = fresh
	}
	return fresh.status.Err
}
