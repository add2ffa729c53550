package elffile

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"testing"
)

// TestRelativeRelocations compares with readelf.
func TestRelativeRelocations(t *testing.T) {
	path := compile(t, "int x; int *a[3] = {&x, &x, &x}; int main(void) { return a[1] == 0; }", "-fPIE", "-pie")
	want := make(map[uint64]uint64)
	line := regexp.MustCompile(`(?m)^([0-9a-f]+) +[0-9a-f]+ R_\w+_RELATIV\w* +([0-9a-f]+)$`)
	for _, m := range line.FindAllStringSubmatch(run(t, "readelf", "-rW", path), -1) {
		at, _ := strconv.ParseUint(m[1], 16, 64)
		want[at], _ = strconv.ParseUint(m[2], 16, 64)
	}
	if len(want) < 3 {
		t.Fatalf("readelf lists %d relocations", len(want))
	}
	got := make(map[uint64]uint64)
	if err := open(t, path).RelativeRelocations(func(at, value uint64) bool {
		got[at] = value
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for at, value := range want {
		if v, ok := got[at]; !ok || v != value {
			t.Errorf("%#x: %#x, %v; readelf says %#x", at, v, ok, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d relocations, readelf lists %d", len(got), len(want))
	}
}

// TestReadVaddr reads a section by its address.
func TestReadVaddr(t *testing.T) {
	f := open(t, libc(t))
	s, err := f.Section(".rodata")
	if err != nil {
		t.Fatal(err)
	}
	start, end, ok := f.SectionRange(".rodata")
	if !ok || start != s.Addr || end-start != uint64(len(s.Data)) {
		t.Fatalf(".rodata from %#x to %#x, %v", start, end, ok)
	}
	got := make([]byte, 4096)
	if err := f.ReadVaddr(got, start+100); err != nil || !bytes.Equal(got, s.Data[100:100+4096]) {
		t.Errorf("other bytes, error %v", err)
	}
	for _, r := range f.LoadRanges() {
		if err := f.ReadVaddr(make([]byte, 2), r[1]-1); !errors.Is(err, ErrTruncated) {
			t.Errorf("beyond %#x: %v", r[1], err)
		}
	}
}
