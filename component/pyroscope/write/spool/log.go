package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// The log is a directory of segment files with ascending numbers, in the format of Prometheus' write-ahead log
// (tsdb/wlog): pages of 32 KiB. A record is split into parts that fit the pages; each part has a header with its kind,
// its length, and a CRC-32C, in network byte order. A part starts only where a header fits; the rest of such a page is
// filled with zeros.
const (
	pageBytes       = 32 << 10
	partHeaderBytes = 7
)

// The kinds of record parts. Zeros fill the rest of a page.
const (
	partNone   = 0
	partFull   = 1
	partFirst  = 2
	partMiddle = 3
	partLast   = 4
)

// segmentName returns the path of a segment file.
func segmentName(dir string, index int) string {
	return filepath.Join(dir, fmt.Sprintf("%08d", index))
}

// writer writes one segment.
type writer struct {
	file *os.File
	size int64
}

// createSegment creates a segment file, which must not exist.
func createSegment(dir string, index int) (*writer, error) {
	file, err := os.OpenFile(segmentName(dir, index), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &writer{file: file}, nil
}

// append writes a record completely, or writes no part of it. If it can neither complete nor remove a partial record,
// the segment ends with that part: after an error, append no further records.
func (w *writer) append(record []byte) error {
	return w.write(inParts(record, int(w.size%pageBytes)))
}

func (w *writer) write(b []byte) error {
	if _, err := w.file.Write(b); err != nil {
		return errors.Join(err, w.file.Truncate(w.size))
	}
	w.size += int64(len(b))
	return nil
}

// fillPage writes zeros up to the end of the page. To a reader, a page that is not full looks as if a record were still
// being written.
func (w *writer) fillPage() error {
	return w.write(make([]byte, -w.size&(pageBytes-1)))
}

// close makes the written records survive a power failure.
func (w *writer) close() error {
	return errors.Join(w.file.Sync(), w.file.Close())
}

// inParts returns the bytes of a record in a segment, starting at offset at of a page.
func inParts(record []byte, at int) []byte {
	out := make([]byte, 0, sizeInLog(len(record))+2*partHeaderBytes)
	for first := true; first || len(record) > 0; first = false {
		if room := pageBytes - at; room < partHeaderBytes {
			out, at = append(out, make([]byte, room)...), 0
		}
		part := record[:min(len(record), pageBytes-at-partHeaderBytes)]
		record = record[len(part):]
		out = append(out, partKind(first, len(record) == 0))
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
		out = binary.BigEndian.AppendUint32(out, crc32.Checksum(part, castagnoli))
		out = append(out, part...)
		at += partHeaderBytes + len(part)
	}
	return out
}

func partKind(first, last bool) byte {
	switch {
	case first && last:
		return partFull
	case first:
		return partFirst
	case last:
		return partLast
	}
	return partMiddle
}

// sizeInLog returns the approximate size on disk of n bytes.
func sizeInLog(n int) int64 {
	return int64(n) + int64(n/(pageBytes-partHeaderBytes)+1)*partHeaderBytes
}
