package elffile

import (
	"bytes"
	"debug/elf"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestFunctionRange compares with nm.
func TestFunctionRange(t *testing.T) {
	need.Tools(t, "nm")
	const prefix = "part_"
	program := compile(t, "int part_one(int a) { return a + 1; }\nint other(int a) { return a * 7; }\n"+
		"int part_two(int a) { return part_one(a) * 3; }\nint main(void) { return part_two(other(1)); }\n")
	out, err := exec.Command("nm", "-S", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var low, high uint64
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 4 || !strings.HasPrefix(fields[3], prefix) || !strings.EqualFold(fields[2], "t") {
			continue
		}
		value, _ := strconv.ParseUint(fields[0], 16, 64)
		size, _ := strconv.ParseUint(fields[1], 16, 64)
		if low == 0 || value < low {
			low = value
		}
		high = max(high, value+size)
	}
	file, err := Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if l, h, ok, err := file.FunctionRange(prefix); !ok || err != nil || l != low || h != high {
		t.Errorf("%#x to %#x, %t, %v; nm says %#x to %#x", l, h, ok, err, low, high)
	}
	if _, _, ok, err := file.FunctionRange("no such function"); ok || err != nil {
		t.Errorf("%t, %v for a name that nothing has", ok, err)
	}
}

// TestOccurrences finds a text at the start, across the end of a read, overlapping itself and at
// the end.
func TestOccurrences(t *testing.T) {
	const head, chunk = 7, 256 << 10
	names := make([]byte, 2*chunk+1000)
	want := []uint32{0, chunk - 2, chunk + 500, chunk + 504, uint32(len(names) - 5)}
	for _, at := range want {
		copy(names[at:], "abaBa")
	}
	image := append(make([]byte, head), names...)
	f := &File{r: bytes.NewReader(image), size: uint64(len(image))}
	section := elf.SectionHeader{Offset: head, Size: uint64(len(names))}
	if got, err := f.occurrences(section, []byte("abaBa")); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	section.Size++
	if _, err := f.occurrences(section, []byte("abaBa")); !errors.Is(err, ErrTruncated) {
		t.Errorf("behind the end: %v", err)
	}
	section.Size = maxPrefixedNames + 1
	if _, err := f.occurrences(section, []byte("abaBa")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("of too many bytes: %v", err)
	}
}
