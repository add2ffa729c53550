package symbol

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"
)

// kernelTable names addresses of the kernel, its modules and BPF programs.
type kernelTable struct {
	ranges  []kernelRange // by start
	module  []uint16      // by range: index in modules
	padding []uint8       // by range: bytes before it with paddingPrefix and its name
	names   kernelNames
	modules []string // in brackets; the first is the kernel itself
	status  Status
}

// kernelRange is a range of addresses with one name.
type kernelRange struct {
	start uint64
	name  uint32 // place in names
	size  uint32
}

// kernelRangeBytes is the memory of a kernelRange, its module and padding.
const kernelRangeBytes = 16 + 2 + 1

const kernelFile = "[kernel]"

// paddingPrefix starts the names of the symbols for the padding before a function, which the kernel reserves for code:
// half of all symbols on x86 since 6.2.
const paddingPrefix = "__pfx_"

// findSymbol returns the index of the range that holds addr, or -1, and whether addr is in the padding of the range.
func (t *kernelTable) findSymbol(addr uint64) (i int, padding bool) {
	i, found := slices.BinarySearchFunc(t.ranges, addr,
		func(r kernelRange, addr uint64) int { return cmp.Compare(r.start, addr) })
	switch {
	case found:
		return i, false
	case i > 0 && addr-t.ranges[i-1].start < uint64(t.ranges[i-1].size):
		return i - 1, false
	case i < len(t.ranges) && t.ranges[i].start-addr <= uint64(t.padding[i]):
		return i, true
	}
	return -1, false
}

func (t *kernelTable) nameAt(i int) string { return t.names.nameAt(t.ranges[i].name) }

func (t *kernelTable) bytes() int { return cap(t.ranges)*kernelRangeBytes + t.names.len() }

// kernelNames are names of symbols, in pieces of nameBytes: a single buffer would be copied repeatedly while it grows.
// A name is never split between pieces.
type kernelNames [][]byte

const (
	nameBytes = 64 << 10
	maxName   = 4 << 10 // the kernel's own limit is 512
)

// addName stores a name, which has no NUL, and returns its place.
func (n *kernelNames) addName(name []byte) uint32 {
	last := len(*n) - 1
	if last < 0 || len((*n)[last])+len(name) >= nameBytes {
		*n = append(*n, make([]byte, 0, nameBytes))
		last++
	}
	piece := (*n)[last]
	at := uint32(last*nameBytes + len(piece))
	(*n)[last] = append(append(piece, name...), 0)
	return at
}

func (n kernelNames) nameAt(place uint32) string {
	rest := n[place/nameBytes][place%nameBytes:]
	return string(rest[:bytes.IndexByte(rest, 0)])
}

func (n kernelNames) len() int { return len(n) * nameBytes }

// frame names the code at address at.
func (t *kernelTable) frame(at uint64) Frame {
	i, padding := t.findSymbol(at)
	if i < 0 {
		return Frame{Function: "0x" + strconv.FormatUint(at, 16), File: kernelFile, Kind: Unknown}
	}
	name := t.nameAt(i)
	if padding {
		name = paddingPrefix + name
	}
	return Frame{Function: name, File: t.modules[t.module[i]], Kind: Kernel}
}

// readKallsyms reads the symbols of the running kernel. The error is in the result's status, because it only makes
// frames unknown.
func readKallsyms(path string) *kernelTable {
	f, err := os.Open(path)
	if err != nil {
		return &kernelTable{status: Status{Reason: Unreadable, Err: err}}
	}
	defer f.Close()
	symbols, err := parseKallsyms(f)
	if err != nil {
		return &kernelTable{status: Status{Reason: Unreadable, Err: fmt.Errorf("read %s: %w", path, err)}}
	}
	if !slices.ContainsFunc(symbols.list, func(s kernelSymbol) bool { return s.addr != 0 }) {
		return &kernelTable{status: Status{Reason: KernelHidden, Err: fmt.Errorf("read %s: %w", path, ErrKernelHidden)}}
	}
	return newKernelTable(symbols)
}

// kernelSymbol is a line of kallsyms.
type kernelSymbol struct {
	addr    uint64
	name    uint32 // place in the names
	module  uint16
	padding uint8 // bytes of padding before it, see kernelTable
	text    bool
}

// start returns the start of the symbol's range, including padding.
func (s kernelSymbol) start() uint64 { return s.addr - uint64(s.padding) }

// kernelSymbols is the content of kallsyms, in order.
type kernelSymbols struct {
	list    []kernelSymbol
	text    int // number of code symbols in list
	names   kernelNames
	modules []string

	held     kernelSymbol // the last line, not in list yet: it may be the padding of the next symbol
	heldName []byte
}

// Limits on kallsyms: a real file has some 100,000 functions.
const (
	usualSymbols     = 100_000
	maxKernelSymbols = 8 << 20
	maxKernelNames   = 512 << 20
	maxModules       = 1<<16 - 1
)

// parseKallsyms parses lines "address type name" and "address type name\t[module]"
// (nm's types, see nm(1)).
func parseKallsyms(r io.Reader) (kernelSymbols, error) {
	s := kernelSymbols{modules: []string{kernelFile}, list: make([]kernelSymbol, 0, usualSymbols)}
	index := map[string]uint16{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		addr, typ, name, module, ok := parseKallsymsLine(lines.Bytes())
		if !ok {
			return kernelSymbols{}, fmt.Errorf("malformed line %.100q", lines.Bytes())
		}
		number := uint16(0)
		if len(module) > 0 {
			if number, ok = index[string(module)]; !ok && len(s.modules) < maxModules {
				number = uint16(len(s.modules))
				s.modules = append(s.modules, validUTF8(string(module)))
				index[string(module)] = number
			}
		}
		entry := kernelSymbol{addr: addr, module: number, text: bytes.IndexByte([]byte("tTwW"), typ) >= 0}
		if !utf8.Valid(name) {
			name = []byte(validUTF8(string(name)))
		}
		if len(name) > maxName {
			return kernelSymbols{}, fmt.Errorf("a name of %d bytes, want at most %d", len(name), maxName)
		}
		if entry.text && isPaddingOf(s.held, s.heldName, entry, name) {
			entry.padding = uint8(entry.addr - s.held.addr)
		} else {
			s.addHeld()
		}
		s.held, s.heldName = entry, append(s.heldName[:0], name...)
		if len(s.list) >= maxKernelSymbols || s.names.len() > maxKernelNames {
			return kernelSymbols{}, fmt.Errorf("more than %d symbols or %d bytes of names", maxKernelSymbols,
				maxKernelNames)
		}
	}
	s.addHeld()
	return s, lines.Err()
}

// isPaddingOf reports whether a symbol is the padding of function f.
func isPaddingOf(s kernelSymbol, name []byte, f kernelSymbol, function []byte) bool {
	of, ok := bytes.CutPrefix(name, []byte(paddingPrefix))
	return ok && s.text && s.padding == 0 && bytes.Equal(of, function) && s.module == f.module && f.addr > s.addr &&
		f.addr-s.addr < 1<<8
}

// addHeld adds the held symbol, if there is one.
func (s *kernelSymbols) addHeld() {
	if len(s.heldName) == 0 {
		return
	}
	if s.held.text {
		s.held.name = s.names.addName(s.heldName)
		s.text++
	}
	s.list = append(s.list, s.held)
}

// parseKallsymsLine splits a line. Names have no spaces but may have any other byte.
func parseKallsymsLine(line []byte) (addr uint64, typ byte, name, module []byte, ok bool) {
	digits, rest, found := bytes.Cut(line, []byte{' '})
	if !found || len(digits) == 0 || len(digits) > 16 || len(rest) < 3 || rest[1] != ' ' {
		return 0, 0, nil, nil, false
	}
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			addr = addr<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			addr = addr<<4 | uint64(c-'a'+10)
		default:
			return 0, 0, nil, nil, false
		}
	}
	name, module, _ = bytes.Cut(rest[2:], []byte{'\t'})
	if bytes.IndexByte(name, 0) >= 0 || len(name) == 0 {
		return 0, 0, nil, nil, false
	}
	return addr, rest[0], name, bytes.TrimSpace(module), true
}

// maxKernelFunction is the maximum size of a function without a following symbol of the same module: kallsyms has no
// sizes.
const maxKernelFunction = 16 << 10

// newKernelTable makes a table: each function ends where the next symbol of any kind starts. Among aliases the first
// listed one wins, as in the kernel's own traces: the kernel sorts weak and linker-made names last.
func newKernelTable(s kernelSymbols) *kernelTable {
	slices.SortStableFunc(s.list, func(a, b kernelSymbol) int { return cmp.Compare(a.addr, b.addr) })
	t := &kernelTable{names: s.names, modules: s.modules, ranges: make([]kernelRange, 0, s.text),
		module: make([]uint16, 0, s.text), padding: make([]uint8, 0, s.text)}
	end := uint64(0) // lower bound of the end of the symbols before
	for i := 0; i < len(s.list); {
		next := i + 1
		for next < len(s.list) && s.list[next].addr == s.list[i].addr {
			next++
		}
		first := slices.IndexFunc(s.list[i:next], func(s kernelSymbol) bool { return s.text })
		if first >= 0 {
			f := s.list[i+first]
			size := uint64(maxKernelFunction)
			if next < len(s.list) {
				size = kernelSize(f, s.list[next])
			}
			t.ranges = append(t.ranges, kernelRange{start: f.addr, size: uint32(size), name: f.name})
			t.module = append(t.module, f.module)
			if f.start() < end { // another symbol is in the padding
				f.padding = 0
			}
			if f.padding > 0 {
				t.status.Symbols++
			}
			t.padding = append(t.padding, f.padding)
		}
		end = s.list[i].addr + 1
		i = next
	}
	t.status.Symbols += len(t.ranges)
	t.status.Bytes = t.bytes()
	return t
}

func kernelSize(f, next kernelSymbol) uint64 {
	size := next.addr - f.addr
	if next.start() > f.addr {
		size = next.start() - f.addr
	}
	if f.module != next.module {
		return min(size, maxKernelFunction)
	}
	return min(size, 1<<32-1)
}
