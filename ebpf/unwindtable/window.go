package unwindtable

import (
	"errors"
	"io"
)

// How much of a section is read at once. The call frame information of a page of
// text is a few hundred bytes, mostly in one piece; a search of the table ends on either
// side of where it is read first. Large ones cost memory for each executable.
const (
	frameChunk  = 4 << 10
	headerChunk = 1 << 10
	codeChunk   = 4 << 10
	scanChunk   = 64 << 10 // of a section that is read from its beginning to its end
)

// window is an ehframe.Source over an io.ReaderAt that keeps the bytes read
// last. One goroutine may use it.
type window struct {
	r     io.ReaderAt
	size  uint64 // of the section
	chunk uint64 // bytes read at once, at least, ...
	back  uint64 // ... of which as many are before those that are asked for
	start uint64 // offset of buf[0]
	buf   []byte
}

// Slice returns the n bytes from off on, fewer where the section ends earlier.
func (w *window) Slice(off uint64, n int) ([]byte, error) {
	if off >= w.size || n <= 0 {
		return nil, nil
	}
	n = int(min(uint64(n), w.size-off))
	if off < w.start || off-w.start+uint64(n) > uint64(len(w.buf)) {
		if err := w.fill(off, n); err != nil {
			return nil, err
		}
	}
	at := off - w.start
	return w.buf[at : at+uint64(n)], nil
}

// fill reads a window that holds the n bytes from off on. Some of the bytes
// before are taken along: a binary search ends among its neighbours, and a CIE
// often precedes its FDEs.
func (w *window) fill(off uint64, n int) error {
	start := off - min(off, w.back)
	length := min(max(w.chunk, off-start+uint64(n)), w.size-start)
	if uint64(cap(w.buf)) < length {
		w.buf = make([]byte, length)
	}
	w.buf = w.buf[:length]
	got, err := w.r.ReadAt(w.buf, int64(start))
	if uint64(got) < length {
		w.buf = w.buf[:0]
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	w.start = start
	return nil
}
