package limit

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		`open "/a b": no`:                  `open "/a b": no`,
		"open /ä":                          "open /ä",
		"open /x\nlevel=error msg=\"y\"":   `open /x\nlevel=error msg="y"`,
		"\x1b[2J\xff\u202e":                `\x1b[2J\xff\u202e`,
		strings.Repeat("x", maxText):       strings.Repeat("x", maxText),
		strings.Repeat("x", maxText+1):     strings.Repeat("x", maxText) + "... (513 bytes)",
		strings.Repeat("x", 511) + "ä":     strings.Repeat("x", 511) + "... (513 bytes)",
		strings.Repeat("\n", maxText) + "": strings.Repeat(`\n`, maxText/2),
	} {
		if got := Text(text); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("open /x\n")
	f.Add(strings.Repeat("\xff", 600))
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if len(got) > maxText+32 || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x1b") {
			t.Errorf("%q of %q", got, s)
		}
	})
}

func TestTexts(t *testing.T) {
	texts := Texts{Most: 2}
	for i := range 64 {
		texts.Add(fmt.Sprint("file ", i%4), 1)
	}
	if want := map[string]uint64{"file 0": 16, "file 1": 16, Rest: 32}; !maps.Equal(texts.Counts(), want) {
		t.Errorf("%v, want %v", texts.Counts(), want)
	}
	if got := (&Texts{}).Counts(); got == nil || len(got) > 0 {
		t.Errorf("of none: %v", got)
	}
}

// TestKinds checks that errors that differ only in an address or in a process are one kind, so that they do not
// displace other errors. A text without variants is shown whole.
func TestKinds(t *testing.T) {
	texts := Texts{Most: 6}
	for i := range 1000 {
		texts.Add(fmt.Sprintf("[hotspot]: read memory at 0x%x: read 4096 bytes of process %d at 0x%x: bad address",
			0x7f085862a122+i, 15524+i%7, 0x7f085862a000+i), 2)
		texts.Add(fmt.Sprintf("object 0x%X has type %d and not 130: implausible", 0x1000+i, i), 1)
		texts.Add(fmt.Sprintf("open /proc/%d/map_files/7f00-7f01: too many open files", 20+i), 1)
		texts.Add(fmt.Sprintf("mark thread %d: no room", i), 1)
	}
	texts.Add("/usr/lib/a.so: FDE at offset 0x40: truncated", 1)
	texts.Add("/usr/lib/b.so: FDE at offset 0x44: truncated", 3)
	want := map[string]uint64{
		"[hotspot]: read memory at 0x...: read 4096 bytes of process ... at 0x...: bad address": 2000,
		"object 0x... has type ... and not 130: implausible":                                    1000,
		"open /proc/.../map_files/7f00-7f01: too many open files":                               1000,
		"mark thread ...: no room":                                                              1000,
		"/usr/lib/a.so: FDE at offset 0x40: truncated":                                          1,
		"/usr/lib/b.so: FDE at offset 0x44: truncated":                                          3,
	}
	if !maps.Equal(texts.Counts(), want) {
		t.Errorf("%v, want %v", texts.Counts(), want)
	}
	// Counts of several parts of a program are also added up by kind.
	all := Texts{Most: 6}
	for text, n := range texts.Counts() {
		all.Add(text, n)
	}
	all.Add("mark thread 7: no room", 1)
	want["mark thread ...: no room"]++
	if !maps.Equal(all.Counts(), want) {
		t.Errorf("%v, want %v", all.Counts(), want)
	}
}
