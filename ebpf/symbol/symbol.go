// Package symbol names addresses: in executables and libraries by their symbol tables and separate debug files, in the
// kernel by kallsyms.
//
// Return addresses point after the call, so one must be subtracted from them; only CodeAddress does that.
package symbol

import (
	"path"
	"strconv"
	"sync"

	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// Object is an executable or library whose addresses are named. It must not change while the Symbolizer uses it.
type Object struct {
	ID      uint32 // the caller's number; its names are cached until Forget(ID)
	Path    string // as seen by the process; "[vdso]" for the vdso
	BuildID string // lower-case hex, "" if unknown
	Owner   uint32 // user ID of the process
	Root    string // root directory of the process, such as /proc/PID/root; "" is this host's. May be gone
	// Open opens the ELF image. It is called when an address of the object is named for the first time, and again if
	// its table was dropped. The Symbolizer closes the result.
	Open func() (*elffile.File, error)
	// Source is the object whose symbols and debug file also name this object, because their code is equal; nil if the
	// object is its own source. Objects of one source share a symbol table. An equal build ID is not enough, because
	// anyone can write one into a file.
	Source *Object
}

// source returns the object whose file is read for o's names.
func (o *Object) source() *Object {
	if o.Source != nil {
		return o.Source
	}
	return o
}

// Kind is how a Frame got its name.
type Kind uint8

// The kinds of frame.
const (
	Unknown Kind = iota // no name: Function consists of the file and the address
	Native              // a function of an executable or library
	Kernel              // a function of the kernel or of one of its modules
)

// Frame is one function at an address. All strings are valid UTF-8.
type Frame struct {
	Function  string // mangled, as in the symbol table; see demangle.Mode.Apply
	File      string // source file if known; in the kernel "[kernel]" or "[module]"
	StartLine int    // of the function's declaration; 0 if unknown
	Line      int    // 0 if unknown
	Kind      Kind
}

// Defaults of Options.
const (
	DefaultTableBytes  = 32 << 20
	DefaultCacheFrames = 64 << 10
	DefaultKallsyms    = "/proc/kallsyms"
)

// Options configure a Symbolizer. The zero value is ready to use.
type Options struct {
	// memory for symbol tables; evicts the least recently used, and keeps the last one; 0: DefaultTableBytes
	TableBytes  int
	CacheFrames int      // number of addresses whose names are remembered; 0: DefaultCacheFrames
	DebugDirs   []string // directories of separate debug files; nil: debugfile.DefaultDir
	Kallsyms    string   // file of kernel symbols; "": DefaultKallsyms
	Fetcher     Fetcher  // downloads debug files; nil if there is none
	// DebugFiles finds separate debug files; nil: a new Finder, which searches DebugDirs. Close closes it.
	DebugFiles *debugfile.Finder
}

func (o *Options) setDefaults() {
	if o.TableBytes == 0 {
		o.TableBytes = DefaultTableBytes
	}
	if o.CacheFrames == 0 {
		o.CacheFrames = DefaultCacheFrames
	}
	if o.DebugFiles == nil {
		o.DebugFiles = debugfile.New(nil, o.DebugDirs)
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

// unpackRate is the long-term rate in bytes per second at which compressed debug info is decompressed, which takes
// about a hundredth of a CPU.
const unpackRate = 2 << 20

// New returns a Symbolizer. It does not read files yet.
func New(options Options) *Symbolizer {
	options.setDefaults()
	finder := &debugFinder{Finder: options.DebugFiles, remote: options.Fetcher}
	finder.spill.Rate = rate.NewLimiter(unpackRate, elffile.DefaultSpill)
	limits := &limit.Counter{}
	tables := newTableCache(options.TableBytes, func(o *Object) (*names, Status) { return loadNames(o, finder) })
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

// Frames names the ELF virtual address vaddr of o: the innermost function first, then the functions that it was inlined
// into; it returns at least one frame. returnAddress reports whether vaddr is the return address of a call: then the
// call is named.
//
// An address without a symbol gets one frame of kind Unknown whose function is the file's name and the start of the
// function according to call frame information, "libx.so+0x1230", so that all addresses of a function have one name.
// Without call frame information it is the CodeAddress itself. The frame never has the name of the preceding function.
// The first call for an object reads its symbols, which may take a second for the largest. The result is shared: do not
// modify it.
func (s *Symbolizer) Frames(o *Object, vaddr uint64, returnAddress bool) []Frame {
	at := CodeAddress(vaddr, returnAddress)
	if frames := s.frames.getFrames(o.ID, at); frames != nil {
		return frames
	}
	known := s.tables.frames(o, at)
	frames := known.frames
	if len(frames) == 0 {
		frames = unnamed(o, known.start)
	}
	s.frames.putFrames(o.ID, at, frames)
	return frames
}

// Unnamed returns the result of Frames for an address with neither a symbol nor call frame information.
func Unnamed(o *Object, vaddr uint64, returnAddress bool) []Frame {
	return unnamed(o, CodeAddress(vaddr, returnAddress))
}

func unnamed(o *Object, at uint64) []Frame {
	return []Frame{{Function: unknownName(o.Path, at), Kind: Unknown}}
}

// SetTableBytes changes Options.TableBytes, 0 for the default, and the number of remembered addresses in proportion.
// Data over the new limits is evicted.
func (s *Symbolizer) SetTableBytes(bytes int) {
	if bytes <= 0 {
		bytes = s.options.TableBytes
	}
	s.tables.setBudget(bytes)
	s.frames.setSize(int(float64(s.options.CacheFrames) * min(1, float64(bytes)/float64(s.options.TableBytes))))
}

// Trim frees memory that is only needed while addresses are named.
func (s *Symbolizer) Trim() { s.tables.trimUnused() }

// CodeAddress returns the address of the code that a frame executes: addr itself or, if addr is a return address, the
// last byte of the call. The call may be the last instruction of its function.
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

// Forget drops the frames and the table of the object with an ID, so that the ID can be reused for a different object.
// The table is dropped even if it is the source of other objects.
func (s *Symbolizer) Forget(id uint32) {
	s.tables.forget(id)
	s.frames.forget(id)
}

// Forgotten returns the IDs of the objects whose names may have changed since the last call: because of Forget, or
// because a debug file was found. Callers that cache the result of Frames need it.
func (s *Symbolizer) Forgotten() map[uint32]bool { return s.frames.takeForgotten() }

// Status returns how the symbols of an object were read; ok is false if none of its addresses has been named yet, or if
// its table was dropped since.
func (s *Symbolizer) Status(o *Object) (status Status, ok bool) { return s.tables.status(o) }

// Problems returns the executables in use, by path, whose debug info is partly missing or unreadable, such as a .dwo
// file or dwz's supplementary file.
func (s *Symbolizer) Problems() map[string]error { return s.tables.problems() }

// LimitHits returns how often readers of foreign files stopped at a limit.
func (s *Symbolizer) LimitHits() map[limit.Reader]uint64 { return s.limits.Hits() }

// Close stops slow work, such as reading debug files. Names requested after Close may be missing.
func (s *Symbolizer) Close() {
	s.finder.Close()
	s.finder.spill.End()
}

// Stats are the sizes of a Symbolizer's caches.
type Stats struct {
	Tables     int // symbol tables of objects
	TableBytes int // memory of the tables
	Frames     int // addresses in the cache
}

// Stats returns the current sizes.
func (s *Symbolizer) Stats() Stats {
	tables, bytes := s.tables.size()
	return Stats{Tables: tables, TableBytes: bytes, Frames: s.frames.size()}
}

// Kernel names an address in the kernel. File is "[kernel]", or the module's name in brackets. An unknown address gets
// kind Unknown and the CodeAddress in hex; KernelStatus has the reason.
func (s *Symbolizer) Kernel(addr uint64, returnAddress bool) Frame {
	at := CodeAddress(addr, returnAddress)
	if f, ok := s.kernel.made.frame(at); ok {
		return f
	}
	return s.kernel.table().frame(at)
}

// KernelSymbol adds code that the kernel made at run time, or marks it as removed. Removed code keeps its name until
// other code takes its place, for samples that are not named yet.
func (s *Symbolizer) KernelSymbol(k KernelSymbol) { s.kernel.made.addSymbol(k) }

// KernelStatus returns how the kernel's symbols were read.
func (s *Symbolizer) KernelStatus() Status { return s.kernel.table().status }

// RefreshKernel reads the kernel's symbols again, for modules and BPF programs that were added or removed. If it fails,
// the old symbols stay.
func (s *Symbolizer) RefreshKernel() error { return s.kernel.refresh() }

// kernel holds the kernel's symbols, which are read on first use.
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
