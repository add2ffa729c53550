package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit/walks"
)

// ending is the reason for the end of a backtrace of libgcc; the values match testdata/backtrace.c.
type ending uint32

const (
	atRoot ending = iota + 1 // the return address is undefined, or zero
	noFDE                    // libgcc has no call frame information for the last frame
	failed                   // libgcc could not continue
	full                     // the library's buffer was full
)

// trace is a backtrace of libgcc.
type trace struct {
	tid           uint32
	entered, left uint64 // start and end of the signal handler, CLOCK_MONOTONIC, ns
	end           ending
	frames        []walks.Place
}

// traces holds the output of the libraries.
type traces struct {
	byThread map[uint32][]trace // in order of time
	late     uint64             // signals that came after their instant, because the program blocked them
	dropped  uint64             // signals for which there was no room
	segments walks.Segments
	asked    dumps // Python's dumps
}

// readTraces reads the files of all processes.
func readTraces(path string) (*traces, error) {
	files, err := filepath.Glob(path + ".*")
	if err != nil {
		return nil, err
	}
	all := &traces{byThread: map[uint32][]trace{}, segments: walks.Segments{}, asked: dumps{}}
	for _, file := range files {
		if filepath.Ext(file) == askedExt {
			if err := all.asked.readFile(file); err != nil {
				return nil, err
			}
			continue
		}
		if err := all.readFile(file); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	for _, list := range all.byThread {
		slices.SortFunc(list, func(a, b trace) int { return cmp.Compare(a.entered, b.entered) })
	}
	return all, nil
}

const (
	sharedHead  = 3 * 8
	maxModules  = 2048
	moduleBytes = 4096
	moduleHead  = 4 * 8
	recordHead  = 6*8 + 8 // bytes, pid and tid, entered, left, pc, sp, end and frames
)

// readFile reads struct shared of testdata/backtrace.c.
func (all *traces) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer unix.Munmap(b)
	u64 := func(at uint64) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	all.late += u64(8)
	all.dropped += u64(16)
	begin, end := uint64(sharedHead+maxModules*moduleBytes), min(u64(0), uint64(len(b)))
	for at := begin; at+recordHead <= end && u64(at) != 0; at += u64(at) {
		t := trace{tid: binary.NativeEndian.Uint32(b[at+12:]), entered: u64(at + 16), left: u64(at + 24)}
		if t.left == 0 {
			continue // the process ended during a record
		}
		t.end = ending(binary.NativeEndian.Uint32(b[at+48:]))
		for i := range uint64(binary.NativeEndian.Uint32(b[at+52:])) {
			frame := at + recordHead + 16*i
			t.frames = append(t.frames, all.placeOf(b, u64(frame), u64(frame+8)))
		}
		all.byThread[t.tid] = append(all.byThread[t.tid], t)
	}
	return nil
}

// placeOf returns the place of an address, given the number of a module. The dynamic linker also reports a module for
// data; the profiler only considers code, so an address of data has no file here.
func (all *traces) placeOf(b []byte, address, module uint64) walks.Place {
	if module == 0 || module > maxModules {
		return walks.Place{Address: address}
	}
	m := b[sharedHead+(module-1)*moduleBytes:][:moduleBytes]
	path, _, _ := bytes.Cut(m[moduleHead:], []byte{0})
	bias, byOffset := binary.NativeEndian.Uint64(m[16:]), binary.NativeEndian.Uint64(m[24:])
	p := walks.Place{File: string(path), Address: address - bias}
	if byOffset != 0 {
		p.Address = all.segments.Vaddr(p.File, p.Address)
	}
	if !all.segments.IsCode(p.File, p.Address) {
		return walks.Place{Address: address}
	}
	return p
}
