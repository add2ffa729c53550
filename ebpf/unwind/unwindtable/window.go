package unwindtable

import (
	"errors"
	"io"
)

// Bytes of a section per read. The call frame information of a page of text has a few hundred
// bytes, mostly in one piece. A search in the table of .eh_frame_hdr ends on either side of the
// first read. Larger chunks cost memory for each executable.
const (
	frameChunk  = 4 << 10
	headerChunk = 1 << 10
	codeChunk   = 4 << 10
	scanChunk   = 64 << 10 // for a section that is read from start to end
)

// window is an ehframe.Source over an io.ReaderAt that caches the bytes of the last read. It must
// not be used concurrently.
type window struct {
	r     io.ReaderAt
	size  uint64 // size of the section
	chunk uint64 // minimum bytes per read
	back  uint64 // bytes before the requested ones that are included
	start uint64 // offset of buf[0]
	buf   []byte
}

// Slice returns n bytes from offset off, or fewer at the end of the section.
func (w *window) Slice(off uint64, n int) ([]byte, error) {
	if off >= w.size || n <= 0 {
		return nil, nil
	}
	n = int(min(uint64(n), w.size-off))
	if off < w.start || off-w.start+uint64(n) > uint64(len(w.buf)) {
		if err := w.fillFrom(off, n); err != nil {
			return nil, err
		}
	}
	at := off - w.start
	return w.buf[at : at+uint64(n)], nil
}

// fillFrom reads a window with the n bytes at off. It includes some bytes before them, because a binary
// search ends among its neighbours, and a CIE often precedes its FDEs.
func (w *window) fillFrom(off uint64, n int) error {
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
