package limit

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxText is how many bytes of a text that others chose are shown.
const maxText = 512

// Text returns a text that others chose, such as an error that names their file, as
// it may be shown: what does not print is escaped, and what is long is cut.
func Text(s string) string {
	cut := s
	if len(s) > maxText {
		cut = strings.ToValidUTF8(s[:maxText], "")
		if !utf8.ValidString(s[:maxText-utf8.UTFMax]) {
			cut = s[:maxText]
		}
	}
	if strings.ContainsFunc(cut, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		quoted := strconv.Quote(cut)
		cut = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	}
	if len(cut) > maxText {
		cut = cut[:maxText]
	}
	if len(s) > maxText {
		cut += fmt.Sprintf("... (%d bytes)", len(s))
	}
	return cut
}

// Texts counts by a text that others may choose. The zero value is useful. Its
// methods may be called concurrently.
type Texts struct {
	Most int // distinct texts; the rest are counted together. 0: 256

	mu     sync.Mutex
	counts map[string]uint64
	rest   uint64
}

// Add counts a text, as Text shows it, n times.
func (t *Texts) Add(text string, n uint64) {
	text = Text(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	most := t.Most
	if most == 0 {
		most = 256
	}
	if _, ok := t.counts[text]; !ok && len(t.counts) >= most {
		t.rest += n
		return
	}
	if t.counts == nil {
		t.counts = map[string]uint64{}
	}
	t.counts[text] += n
}

// Rest is the text that stands for those beyond the limit.
const Rest = "others, which are not listed"

// Counts returns the counts by text; those beyond the limit are under Rest.
func (t *Texts) Counts() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := maps.Clone(t.counts)
	if counts == nil {
		counts = map[string]uint64{}
	}
	if t.rest > 0 {
		counts[Rest] += t.rest
	}
	return counts
}
