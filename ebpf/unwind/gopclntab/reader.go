package gopclntab

import "fmt"

// Reader reads functions of a Table. It must not be used concurrently.
type Reader struct {
	t     *Table
	marks []uint64 // start addresses of functions 0, markEvery, 2*markEvery...; 0 if not read yet
	index window
	funcs window
	pcs   window
	names window
	units window
	files window
	data  window // data that functions refer to, anywhere in the image
}

// markEvery is the number of functions between two marks. Their part of the index has some 2 KiB,
// so a lookup takes one or two reads once the marks are read.
const markEvery = 256

// NewReader returns a Reader of t.
func (t *Table) NewReader() *Reader {
	r := &Reader{t: t, marks: make([]uint64, (t.count+markEvery-1)/markEvery)}
	for _, w := range []struct {
		w    *window
		span span
		size int
	}{{&r.index, t.funcs, 2 << 10}, {&r.funcs, t.funcs, 8 << 10}, {&r.pcs, t.pcs, 8 << 10},
		{&r.names, t.names, 4 << 10},
		{&r.units, t.units, 64}, {&r.files, t.files, 256}, {&r.data, span{0, 1<<64 - 1}, 512}} {
		*w.w = window{image: t.image, span: w.span, size: w.size}
	}
	return r
}

// Find returns the function at the ELF virtual address pc, and its number. ok is false if pc is
// before the first or after the last function. The table also contains functions that are not Go's,
// and padding counts as part of the function before it.
func (r *Reader) Find(pc uint64) (f Func, i int, ok bool, err error) {
	low, high, err := r.between(pc)
	if err != nil {
		return Func{}, 0, false, fmt.Errorf("function at %#x: %w", pc, err)
	}
	// Find the first function that starts after pc.
	for low < high {
		mid := int(uint(low+high) >> 1)
		entry, err := r.indexField(2 * mid)
		if err != nil {
			return Func{}, 0, false, fmt.Errorf("function at %#x: %w", pc, err)
		}
		if entry <= pc {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 {
		return Func{}, 0, false, nil
	}
	f, err = r.At(low - 1)
	if err != nil {
		return Func{}, 0, false, fmt.Errorf("function at %#x: %w", pc, err)
	}
	return f, low - 1, pc < f.End, nil
}

// between returns a small range [low, high) of functions that contains the first function that
// starts after pc, unless that is the function high.
func (r *Reader) between(pc uint64) (low, high int, err error) {
	from, to := 0, len(r.marks)
	for from < to {
		mid := int(uint(from+to) >> 1)
		if r.marks[mid] == 0 {
			if r.marks[mid], err = r.indexField(2 * mid * markEvery); err != nil {
				return 0, 0, err
			}
		}
		if r.marks[mid] <= pc {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return max(from-1, 0) * markEvery, min(from*markEvery, r.t.count), nil
}

// At returns function number i in ascending order of addresses, with i in [0, Len()).
func (r *Reader) At(i int) (Func, error) {
	if i < 0 || i >= r.t.count {
		return Func{}, fmt.Errorf("function %d: %w", i, ErrInvalid)
	}
	var fields [3]uint64 // entry, offset of the record, next entry
	for k := range fields {
		var err error
		if fields[k], err = r.indexField(2*i + k); err != nil {
			return Func{}, fmt.Errorf("function %d: %w", i, err)
		}
	}
	f := Func{Entry: fields[0], End: fields[2]}
	if err := r.describe(&f, fields[1]); err != nil {
		return Func{}, fmt.Errorf("function %d: %w", i, err)
	}
	return f, nil
}

// indexField returns field k of the index. Even fields are addresses, to which it adds the start of
// the text. Odd fields are offsets of records.
func (r *Reader) indexField(k int) (uint64, error) {
	size := r.t.field()
	b, err := r.index.getBytes(r.t.funcs.start+uint64(k)*uint64(size), size)
	if err != nil {
		return 0, err
	}
	if size == 8 {
		return r.t.order.Uint64(b), nil
	}
	v := uint64(r.t.order.Uint32(b))
	if k%2 == 0 && r.t.version >= go118 {
		v += r.t.text
	}
	return v, nil
}

// window caches some bytes of an image.
type window struct {
	image Image
	span  span // range that may be read
	size  int  // bytes per read
	start uint64
	buf   []byte
}

// getBytes returns n bytes at address at, which are valid until the next call.
func (w *window) getBytes(at uint64, n int) ([]byte, error) {
	b, err := w.someBytes(at, n)
	if err == nil && len(b) < n {
		return nil, ErrInvalid
	}
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// someBytes returns the bytes from address at on: at least n bytes, or all that exist.
func (w *window) someBytes(at uint64, n int) ([]byte, error) {
	if at < w.span.start || at >= w.span.end {
		return nil, ErrInvalid
	}
	n = int(min(uint64(n), w.span.end-at))
	if at < w.start || at-w.start > uint64(len(w.buf)) || uint64(len(w.buf))-(at-w.start) < uint64(n) {
		if err := w.fillFrom(at, n); err != nil {
			return nil, err
		}
	}
	return w.buf[at-w.start:], nil
}

// fillFrom reads a window that starts a little before at, because searches move in both directions.
func (w *window) fillFrom(at uint64, n int) error {
	start := at - min(at-w.span.start, uint64(w.size/8))
	length := min(uint64(max(w.size, n+w.size/8)), w.span.end-start)
	if uint64(cap(w.buf)) < length {
		w.buf = make([]byte, length)
	}
	w.buf, w.start = w.buf[:length], start
	if err := w.image.ReadVaddr(w.buf, start); err != nil {
		w.buf = w.buf[:0]
		return err
	}
	return nil
}
