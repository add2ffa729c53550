package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// searchBytes bounds the search for the next part after damage: the number of bytes of a page that are checksummed.
// When it is reached, the rest of the page is lost.
const searchBytes = 4 << 20

// reader reads one segment, also while the segment is being written. It continues after damage: it looks for the next
// part with a correct checksum. (Prometheus' own reader stops at damage.)
type reader struct {
	segment *segment
	file    *os.File

	page    []byte // the bytes at start that have been read so far
	start   int64
	at      int    // offset of the next part in the page
	record  []byte // parts of a record that is not complete yet; nil: none
	damaged bool   // bytes were skipped since the last record
	skipped int64  // skipped bytes in total
	good    int64  // end of the last complete record
	torn    bool   // the file ends within a record
}

func newReader(dir string, of *segment) (*reader, error) {
	file, err := os.Open(segmentName(dir, of.index))
	if err != nil {
		return nil, err
	}
	return &reader{segment: of, file: file}, nil
}

// nextRecord returns the next record, valid until the next call, or io.EOF. It sets damaged if it skipped bytes before
// the record.
func (r *reader) nextRecord() ([]byte, error) {
	r.damaged = false
	for {
		kind, data, err := r.readPart()
		if err != nil {
			r.torn = r.torn || r.record != nil
			return nil, err
		}
		begins, ends := kind == partFull || kind == partFirst, kind == partFull || kind == partLast
		if begins == (r.record != nil) { // a record without an end, or without a start
			r.skipBytes(len(r.record) + len(data))
			r.record = nil
			if !begins {
				continue
			}
		}
		r.record = append(r.record, data...)
		if r.record == nil {
			r.record = []byte{}
		}
		if ends {
			whole := r.record
			r.record, r.good = nil, r.start+int64(r.at)
			return whole, nil
		}
	}
}

func (r *reader) skipBytes(bytes int) {
	r.damaged = true
	r.skipped += int64(bytes)
}

// readPart returns the next record part.
func (r *reader) readPart() (kind byte, data []byte, err error) {
	for {
		if r.at >= pageBytes {
			r.start, r.page, r.at = r.start+pageBytes, nil, 0
		}
		kind, data, size := partAt(r.page, r.at)
		if size == 0 && len(r.page) < pageBytes { // more bytes may have been written since
			if err := r.loadBlock(); err != nil {
				return 0, nil, err
			}
			kind, data, size = partAt(r.page, r.at)
		}
		switch {
		case size > 0:
			r.at += size
			return kind, data, nil
		case isZero(r.page[r.at:]):
			if len(r.page) < pageBytes {
				return 0, nil, io.EOF
			}
			r.at = pageBytes
		case r.short():
			r.torn = true
			return 0, nil, io.EOF
		default:
			next := search(r.page, r.at+1)
			r.skipBytes(next - r.at)
			r.record, r.at = nil, next
			if next == len(r.page) && next < pageBytes {
				return 0, nil, io.EOF
			}
		}
	}
}

// loadBlock reads the page as far as it has been written.
func (r *reader) loadBlock() error {
	if r.page == nil {
		r.page = make([]byte, 0, pageBytes)
	}
	n, err := r.file.ReadAt(r.page[len(r.page):pageBytes], r.start+int64(len(r.page)))
	r.page = r.page[:len(r.page)+n]
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if r.at > len(r.page) {
		return fmt.Errorf("it has become shorter")
	}
	return nil
}

// short reports whether the file ends within the part that starts here.
func (r *reader) short() bool {
	left := r.page[r.at:]
	if len(r.page) == pageBytes || len(left) == 0 {
		return false
	}
	if left[0] < partFull || left[0] > partLast {
		return false
	}
	return len(left) < partHeaderBytes || partHeaderBytes+int(binary.BigEndian.Uint16(left[1:])) > len(left)
}

// partAt returns the part that starts at offset at of a page. size includes the header; it is 0 if no part starts
// there.
func partAt(page []byte, at int) (kind byte, data []byte, size int) {
	if at+partHeaderBytes > len(page) {
		return partNone, nil, 0
	}
	head := page[at:]
	kind = head[0]
	size = partHeaderBytes + int(binary.BigEndian.Uint16(head[1:]))
	if kind < partFull || kind > partLast || size > len(head) {
		return partNone, nil, 0
	}
	data = head[partHeaderBytes:size]
	if crc32.Checksum(data, castagnoli) != binary.BigEndian.Uint32(head[3:]) {
		return partNone, nil, 0
	}
	if size == partHeaderBytes && at+size != pageBytes { // an empty part is valid only at the end of a page
		return partNone, nil, 0
	}
	return kind, data, size
}

// search returns the offset of the next part of a page, or the end of the page.
func search(page []byte, from int) int {
	work := 0
	for ; from+partHeaderBytes <= len(page) && work < searchBytes; from++ {
		head := page[from:]
		if head[0] < partFull || head[0] > partLast {
			continue
		}
		if _, _, size := partAt(page, from); size > 0 {
			return from
		}
		if size := int(binary.BigEndian.Uint16(head[1:])); size <= len(head) {
			work += size
		}
	}
	return len(page)
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func (r *reader) readRecord() (Record, error) {
	data, err := r.nextRecord()
	if errors.Is(err, io.EOF) {
		return Record{}, fmt.Errorf("it ends %d records early", r.segment.records)
	}
	if err != nil {
		return Record{}, err
	}
	return decode(data)
}
