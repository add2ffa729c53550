package probe

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
)

// Events returns the places where the kernel has to put the probe: one, or several for a USDT probe, for a pattern and
// for a function with several returns. It reads the file.
func (p *Probe) Events() ([]kernel.ProbeEvent, error) {
	of := kernel.ProbeEvent{Type: p.Type, Period: p.Period}
	switch p.Type {
	case "unsafe-uretprobe":
		of.Type, of.Return = "uprobe", true
	case "kretprobe":
		of.Type, of.Return = "kprobe", true
	}
	switch of.Type {
	case "kprobe":
		of.Name, of.Offset = p.Symbol, p.Offset
	case "tracepoint":
		of.Group, of.Name = p.Group, p.Symbol
	case "software":
		event, err := p.event()
		of.Config = event
		return []kernel.ProbeEvent{of}, err
	default:
		of.Type = "uprobe"
		return p.placesInFile(of)
	}
	return []kernel.ProbeEvent{of}, nil
}

// event returns the number of a software event.
func (p *Probe) event() (uint64, error) {
	all := map[string]uint64{
		"page-faults": unix.PERF_COUNT_SW_PAGE_FAULTS, "minor-faults": unix.PERF_COUNT_SW_PAGE_FAULTS_MIN,
		"major-faults": unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ, "context-switches": unix.PERF_COUNT_SW_CONTEXT_SWITCHES,
		"cpu-migrations": unix.PERF_COUNT_SW_CPU_MIGRATIONS, "alignment-faults": unix.PERF_COUNT_SW_ALIGNMENT_FAULTS,
		"emulation-faults": unix.PERF_COUNT_SW_EMULATION_FAULTS,
	}
	event, ok := all[p.Symbol]
	if !ok {
		return 0, fmt.Errorf("%q is no software event: want page-faults, minor-faults, major-faults, context-switches, "+
			"cpu-migrations, alignment-faults or emulation-faults", p.Symbol)
	}
	return event, nil
}

func (p *Probe) placesInFile(of kernel.ProbeEvent) ([]kernel.ProbeEvent, error) {
	f, err := elf.Open(p.Path)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.Path, err)
	}
	defer f.Close()
	of.Path = p.Path
	if p.Type == "usdt" {
		return p.usdtPlaces(f, of)
	}
	c := &code{path: p.Path}
	defer c.close()
	functions, err := p.functions(f, c)
	if err != nil {
		return nil, err
	}
	var places []kernel.ProbeEvent
	for _, function := range functions {
		found, err := p.placesIn(f, c, function, of)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", function.Name, p.Path, err)
		}
		for _, place := range found {
			if !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
	}
	if len(places) > maxPlaces {
		return nil, fmt.Errorf("%q matches %d places in %s, more than %d: name fewer functions", p.Symbol, len(places),
			p.Path, maxPlaces)
	}
	return places, nil
}

// placesIn returns the places of the probe in one function.
func (p *Probe) placesIn(
	f *elf.File, c *code, function elf.Symbol, of kernel.ProbeEvent,
) (places []kernel.ProbeEvent, err error) {
	addresses := []uint64{function.Value}
	switch {
	case p.Type == "unsafe-uretprobe":
		if f.Section(".gopclntab") != nil || f.Section(".go.buildinfo") != nil {
			return nil, errors.New("a Go program aborts if the kernel replaces a return address: use uretprobe")
		}
	case p.Type == "uretprobe":
		of.Leaves = true
		if addresses, err = p.exits(c, function); err != nil {
			return nil, err
		}
	case p.Offset == 0:
		of.Entry = true
	default:
		addresses[0] += p.Offset
		if err := p.checkInstruction(c, function); err != nil {
			return nil, err
		}
	}
	for _, address := range addresses {
		if of.Offset, err = fileOffset(f, address); err != nil {
			return nil, err
		}
		places = append(places, of)
	}
	return places, nil
}

// fileOffset returns the offset in the file of an address of code or data.
func fileOffset(f *elf.File, vaddr uint64) (uint64, error) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && vaddr >= p.Vaddr && vaddr-p.Vaddr < p.Filesz {
			return vaddr - p.Vaddr + p.Off, nil
		}
	}
	return 0, fmt.Errorf("no part of the file is loaded at address %#x", vaddr)
}

// noteStapsdt is the type of notes that describe USDT probes, see
// https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation.
const noteStapsdt = 3

// usdtPlaces returns the places of a USDT probe.
func (p *Probe) usdtPlaces(f *elf.File, of kernel.ProbeEvent) (places []kernel.ProbeEvent, err error) {
	section := f.Section(".note.stapsdt")
	if section == nil {
		return nil, fmt.Errorf("%s has no USDT probes: see readelf -n %s", p.Path, p.Path)
	}
	notes, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read the USDT probes of %s: %w", p.Path, err)
	}
	var base uint64
	if s := f.Section(".stapsdt.base"); s != nil {
		base = s.Addr
	}
	for note := range eachNote(notes, f.ByteOrder) {
		vaddr, semaphore, ok := p.place(note, f.ByteOrder, base)
		if !ok {
			continue
		}
		at := of
		if at.Offset, err = fileOffset(f, vaddr); err != nil {
			return nil, fmt.Errorf("USDT probe %s:%s in %s: %w", p.Group, p.Symbol, p.Path, err)
		}
		if semaphore != 0 {
			if at.Semaphore, err = fileOffset(f, semaphore); err != nil {
				return nil, fmt.Errorf("semaphore of USDT probe %s:%s in %s: %w", p.Group, p.Symbol, p.Path, err)
			}
		}
		if !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	if len(places) == 0 {
		return nil, fmt.Errorf("%s has no USDT probe %s:%s: see readelf -n %s", p.Path, p.Group, p.Symbol, p.Path)
	}
	return places, nil
}

// eachNote yields the descriptors of the notes of USDT probes, and ends at a note that does not fit.
func eachNote(b []byte, order binary.ByteOrder) func(yield func([]byte) bool) {
	padded := func(n uint64) uint64 { return (n + 3) &^ 3 }
	return func(yield func([]byte) bool) {
		for len(b) >= 12 {
			name, size, kind := padded(uint64(order.Uint32(b))), uint64(order.Uint32(b[4:])), order.Uint32(b[8:])
			b = b[12:]
			if name+padded(size) > uint64(len(b)) {
				return
			}
			if kind == noteStapsdt && !yield(b[name:name+size]) {
				return
			}
			b = b[name+padded(size):]
		}
	}
}

// place returns the addresses in a note if it is of the probe. A note has addresses from before prelink, which moved
// base by the same distance.
func (p *Probe) place(note []byte, order binary.ByteOrder, base uint64) (vaddr, semaphore uint64, ok bool) {
	const fixed = 24
	if len(note) < fixed {
		return 0, 0, false
	}
	provider, rest := cutText(note[fixed:])
	name, _ := cutText(rest)
	if provider != p.Group || name != p.Symbol {
		return 0, 0, false
	}
	vaddr, semaphore = order.Uint64(note), order.Uint64(note[16:])
	if base != 0 {
		moved := base - order.Uint64(note[8:])
		vaddr += moved
		if semaphore != 0 {
			semaphore += moved
		}
	}
	return vaddr, semaphore, true
}

// cutText returns the text before the first zero byte, and the bytes after it.
func cutText(b []byte) (string, []byte) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:]
		}
	}
	return string(b), nil
}
