package gopclntab

// Since Go 1.18 function addresses are relative to the start of Go's text, runtime.text. The header
// contains it until Go 1.25, but in position-independent programs possibly only as a relocation.
// The runtime's own description of the program, runtime.firstmoduledata, contains it in all
// versions.

// Words of runtime.moduledata (src/runtime/symtab.go), the same since Go 1.16.
const (
	moduleHeader = 0 // address of the table
	moduleNames  = 1 // address of the names
	moduleMinPC  = 20
	moduleMaxPC  = 21
	moduleText   = 22
	moduleGofunc = 40 // go:func.*, since Go 1.20
	gofuncGo118  = 38 // in Go 1.18 and 1.19
	moduleWords  = 41
)

// locateText sets t.text if the header does not contain it.
func (t *Table) locateText() error {
	if t.version < go118 || t.text != 0 {
		return nil
	}
	if t.tryHeaderRelocation() || t.locateModule() {
		return nil
	}
	return ErrTextStart
}

// locateModule finds the module data and sets t.text and t.gofunc from it.
func (t *Table) locateModule() bool {
	if t.version < go118 {
		return false
	}
	if start, _, ok := t.image.SectionRange(".go.module"); ok && t.tryModule(start, t.words(start)) {
		return true
	}
	return t.tryRelocations() || t.tryScan()
}

// functionData returns the base of the offsets of functions' data, 0 if unknown.
func (t *Table) functionData() uint64 {
	t.module.Do(func() {
		if t.gofunc == 0 {
			t.locateModule()
		}
	})
	return t.gofunc
}

// words returns the words of the module data at address at in the file, nil if they are unreadable.
func (t *Table) words(at uint64) []uint64 {
	b := make([]byte, moduleWords*t.ptr)
	if t.image.ReadVaddr(b, at) != nil {
		return nil
	}
	words := make([]uint64, moduleWords)
	for i := range words {
		words[i] = t.pointer(b[i*t.ptr:])
	}
	return words
}

// tryModule sets t.text and t.gofunc from the candidate for module data at address at. Real module
// data contains the address of the table, the address of its names, and the first and last pc.
func (t *Table) tryModule(at uint64, words []uint64) bool {
	if words == nil || words[moduleHeader] != t.header || words[moduleNames] != t.names.start {
		return false
	}
	low, high, err := t.bounds()
	text := words[moduleText]
	if err != nil || text == 0 || words[moduleMinPC] != text+low || words[moduleMaxPC] != text+high {
		return false
	}
	t.text, t.gofunc = text, words[moduleGofunc]
	if t.version < go120 {
		t.gofunc = words[gofuncGo118]
	}
	return true
}

// bounds returns the first address in the index and the end of the last function, relative to the
// start of the text.
func (t *Table) bounds() (low, high uint64, err error) {
	r := t.NewReader()
	if low, err = r.indexField(0); err != nil {
		return 0, 0, err
	}
	high, err = r.indexField(2 * t.count)
	return low - t.text, high - t.text, err
}

// maxModules bounds the number of candidates for module data.
const maxModules = 16

// tryHeaderRelocation sets t.text from the relocation of the header's word.
func (t *Table) tryHeaderRelocation() bool {
	header := t.header + 8 + 2*uint64(t.ptr) // the header's word with the start of the text
	err := t.image.RelativeRelocations(func(at, value uint64) bool {
		if at == header {
			t.text = value
		}
		return t.text == 0
	})
	return err == nil && t.text != 0
}

// tryRelocations finds module data in relocations, because a file need not contain relocated words.
func (t *Table) tryRelocations() bool {
	var places []uint64
	err := t.image.RelativeRelocations(func(at, value uint64) bool {
		if value == t.header {
			places = append(places, at)
		}
		return len(places) < maxModules
	})
	if err != nil {
		return false
	}
	if len(places) == 0 {
		return false
	}
	modules, word := make([][moduleWords]uint64, len(places)), uint64(t.ptr)
	err = t.image.RelativeRelocations(func(at, value uint64) bool {
		for i, place := range places {
			if at >= place && (at-place)/word < moduleWords && (at-place)%word == 0 {
				modules[i][(at-place)/word] = value
			}
		}
		return true
	})
	for i := range modules {
		if err == nil && t.tryModule(places[i], modules[i][:]) {
			return true
		}
	}
	return false
}

// tryScan finds module data whose words are in the file. It first searches the sections that
// contain it in most programs.
func (t *Table) tryScan() bool {
	for _, name := range []string{".noptrdata", ".data", ".data.rel.ro"} {
		if start, end, ok := t.image.SectionRange(name); ok && t.scanModule(start, end) {
			return true
		}
	}
	for _, r := range t.image.LoadRanges() {
		if t.scanModule(r[0], r[1]) {
			return true
		}
	}
	return false
}

// scanModule finds module data in a range of addresses.
func (t *Table) scanModule(start, end uint64) bool {
	buf, word := make([]byte, scanChunk), uint64(t.ptr)
	end = min(end, start+MaxScan)
	for at := (start + word - 1) &^ (word - 1); at < end; at += scanChunk {
		chunk := buf[:min(scanChunk, end-at)]
		if t.image.ReadVaddr(chunk, at) != nil {
			return false
		}
		for i := 0; i+t.ptr <= len(chunk); i += t.ptr {
			if t.pointer(chunk[i:]) == t.header && t.tryModule(at+uint64(i), t.words(at+uint64(i))) {
				return true
			}
		}
	}
	return false
}
