package jit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// The jitdump format (Linux, tools/perf/Documentation/jitdump-specification.txt): a
// header, then records, each with a prefix of type, size and time.
const (
	dumpMagic  = 0x4a695444
	dumpHeader = 40
	dumpPrefix = 16

	recordLoad  = 0
	recordMove  = 1
	recordLines = 2
)

// The maximum number of bytes that are read of a record: a function without its code, and as many lines as fit.
const (
	maxLoad  = 64 + maxName
	maxLines = chunk
)

var errDump = errors.New("malformed jitdump")

// dump reads one jitdump file.
type dump struct {
	order binary.ByteOrder // nil before the header is read
	lines struct {         // lines of the next function
		addr        uint64
		from, count int
	}
	named map[uint64]uint32 // offset of the name of the current function at an address
}

// parse adds the functions of complete records in b to t. b is the start of the last left bytes of the file. It returns
// the number of bytes that it used, which may exceed len(b): most of a record is code. It stops at a record that is not
// sufficiently in b.
func (d *dump) parse(t *table, b []byte, left int64) (used int64, err error) {
	if d.order == nil {
		if used, err = d.header(b, left); used == 0 {
			return 0, err
		}
	}
	for used+dumpPrefix <= int64(len(b)) {
		rest := b[used:]
		kind, size := d.order.Uint32(rest), int64(d.order.Uint32(rest[4:]))
		if size < dumpPrefix {
			return used, fmt.Errorf("%w: record of %d bytes", errDump, size)
		}
		wanted := min(size, wantedOf(kind))
		if size > left-used || wanted > int64(len(rest)) {
			return used, nil // not written yet, or not in b
		}
		d.record(t, kind, rest[dumpPrefix:min(size, int64(len(rest)))])
		used += size
	}
	return used, nil
}

// wantedOf returns the number of bytes that are read of a record.
func wantedOf(kind uint32) int64 {
	switch kind {
	case recordLoad, recordMove:
		return maxLoad
	case recordLines:
		return maxLines
	}
	return dumpPrefix
}

// header reads: u32 magic, version, size of the header, machine, 0, pid; u64 time,
// flags.
func (d *dump) header(b []byte, left int64) (used int64, err error) {
	if len(b) < dumpHeader {
		return 0, nil
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if size := int64(order.Uint32(b[8:])); order.Uint32(b) == dumpMagic && size >= dumpHeader && size <= left {
			d.order = order
			return size, nil
		}
	}
	return 0, fmt.Errorf("%w: no header", errDump)
}

func (d *dump) record(t *table, kind uint32, b []byte) {
	u64 := func(at int) uint64 { return d.order.Uint64(b[at:]) }
	switch {
	case kind == recordLines && len(b) >= 16:
		d.readLines(t, u64(0), u64(8), b[16:])
	case kind == recordLoad && len(b) >= 40:
		// u32 pid, tid; u64 address at creation, address, size, number; name, code
		name, _, ok := bytes.Cut(b[40:], []byte{0})
		if !ok && len(name) < maxName {
			return
		}
		from, count := 0, 0
		if d.lines.count > 0 && d.lines.addr == u64(16) {
			from, count = d.lines.from, d.lines.count
		}
		d.lines.count = 0
		if at, ok := t.addFunction(u64(16), u64(24), name, from, count); ok {
			d.setName(t, u64(16), at)
		}
	case kind == recordMove && len(b) >= 48:
		// u32 pid, tid; u64 address at creation, old and new address, size, number
		if at, ok := d.named[u64(16)]; ok {
			d.setName(t, u64(24), at)
			t.addNamed(u64(24), u64(32), at, 0, 0)
		}
	}
}

// setName records the function at an address, for later moves.
func (d *dump) setName(t *table, addr uint64, at uint32) {
	if _, known := d.named[addr]; !known && !t.share.takeBytes(mapEntry) {
		return
	}
	if d.named == nil {
		d.named = map[uint64]uint32{}
	}
	d.named[addr] = at
}

// readLines reads entries: u64 address; u32 line, column; name of the file, or 0xff for the previous name.
func (d *dump) readLines(t *table, addr, n uint64, b []byte) {
	d.lines.addr, d.lines.from, d.lines.count = addr, len(t.lines), 0
	var file []byte
	for ; n > 0 && len(b) > 16; n-- {
		at, number := d.order.Uint64(b), d.order.Uint32(b[8:])
		name, rest, ok := bytes.Cut(b[16:], []byte{0})
		if !ok {
			return
		}
		if !bytes.Equal(name, []byte{0xff}) {
			file = name
		}
		if !t.addLine(at, number, file) {
			return
		}
		d.lines.count++
		b = rest
	}
}
