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
