package gopclntab

import (
	"bytes"
	"errors"
)

// sections are the names of the table's section. The second name was used in position-independent
// programs while the table needed relocations.
func sections() []string { return []string{".gopclntab", ".data.rel.ro.gopclntab"} }

// findTable returns the table of image: from its own section, from the section that GNU ld merges it
// into, or by a search if the image has no sections.
func findTable(image Image) (*Table, error) {
	for _, name := range sections() {
		if start, end, ok := image.SectionRange(name); ok {
			return check(image, span{start, end})
		}
	}
	if !image.IsGo() {
		return nil, ErrNoTable
	}
	if start, end, ok := image.SectionRange(".data.rel.ro"); ok {
		return scanSpan(image, span{start, end})
	}
	if image.HasSections() {
		return nil, ErrNoTable
	}
	for _, r := range image.LoadRanges() {
		if t, err := scanSpan(image, span{r[0], r[1]}); !errors.Is(err, ErrNoTable) {
			return t, err
		}
	}
	return nil, ErrNoTable
}

// check returns the table at the start of s if it is plausible.
func check(image Image, s span) (*Table, error) {
	t, err := parse(image, s)
	if err != nil {
		return nil, err
	}
	if err := t.locateText(); err != nil {
		return nil, err
	}
	if err := t.plausible(); err != nil {
		return nil, err
	}
	return t, nil
}

// Limits on a search by magic.
const (
	MaxScan       = 1 << 30  // bytes
	scanChunk     = 64 << 10 // bytes read at a time
	MaxCandidates = 64       // places that look like a header
)

// scanSpan searches s for a table.
func scanSpan(image Image, s span) (*Table, error) {
	s.end = min(s.end, s.start+MaxScan)
	buf := make([]byte, scanChunk)
	candidates := 0
	for at := s.start; at < s.end && s.end-at >= headerSize; at += scanChunk - headerSize {
		chunk := buf[:min(scanChunk, s.end-at)]
		if err := image.ReadVaddr(chunk, at); err != nil {
			return nil, err
		}
		for _, off := range headers(chunk) {
			t, err := check(image, span{at + uint64(off), s.end})
			if err == nil {
				return t, nil
			}
			if candidates++; candidates == MaxCandidates {
				return nil, ErrNoTable
			}
		}
	}
	return nil, ErrNoTable
}

// headers returns the offsets in chunk that look like the start of a little-endian header.
// Big-endian programs do not run on supported machines.
func headers(chunk []byte) []int {
	var found []int
	common := []byte{0xff, 0xff, 0xff, 0, 0} // bytes 1 to 5 of all magics
	for from := 1; from < len(chunk); {
		i := bytes.Index(chunk[from:], common)
		if i < 0 {
			break
		}
		start := from + i - 1
		if t := (&Table{}); start+8 <= len(chunk) {
			t.quantum, t.ptr = uint64(chunk[start+6]), int(chunk[start+7])
			if t.identify(chunk[start:]) {
				found = append(found, start)
			}
		}
		from += i + 1
	}
	return found
}

// plausible checks samples of the index, including both ends: addresses must be ascending, and each
// entry must lead to a function with the same entry.
func (t *Table) plausible() error {
	const samples = 32
	r := t.NewReader()
	previous := uint64(0)
	for k := range samples + 1 {
		i := int(uint64(t.count-1) * uint64(k) / samples)
		f, err := r.At(i)
		if err != nil {
			return err
		}
		if f.Entry < previous || f.End < f.Entry {
			return ErrInvalid
		}
		if entry, err := r.storedEntry(&f); err != nil || entry != f.Entry {
			return errors.Join(ErrInvalid, err)
		}
		previous = f.Entry
	}
	return nil
}
