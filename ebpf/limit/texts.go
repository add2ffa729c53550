package limit

import (
	"fmt"
	"regexp"
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

// Texts counts texts that others may choose, such as errors, by kind: those that differ in an address of memory or in
// the number of a process alone are one. The zero value is useful. Its methods may be called concurrently.
type Texts struct {
	Most int // kinds; the rest are counted together. 0: 256

	mu    sync.Mutex
	kinds map[string]*sameKind
	rest  uint64
}

// sameKind is what was counted of a kind.
type sameKind struct {
	first string // text
	other bool   // some were others
	n     uint64
}

// Places are what differs between texts of a kind: addresses and numbers of processes, threads and types of objects.
var (
	addresses = regexp.MustCompile(`0x[0-9a-fA-F]+`)
	processes = regexp.MustCompile(`\b(process|thread|type)( |es |s )[0-9]+|/(proc|task)/[0-9]+`)
)

// kindOf is a text without what differs between those of its kind.
func kindOf(text string) string {
	text = addresses.ReplaceAllLiteralString(text, "0x...")
	return processes.ReplaceAllStringFunc(text, func(s string) string {
		return strings.TrimRight(s, "0123456789") + "..."
	})
}

// Add counts a text, as Text shows it, n times.
func (t *Texts) Add(text string, n uint64) {
	text = Text(text)
	kind := kindOf(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	most := t.Most
	if most == 0 {
		most = 256
	}
	same := t.kinds[kind]
	switch {
	case same != nil:
	case len(t.kinds) >= most:
		t.rest += n
		return
	default:
		if t.kinds == nil {
			t.kinds = map[string]*sameKind{}
		}
		same = &sameKind{first: text}
		t.kinds[kind] = same
	}
	same.other = same.other || text != same.first
	same.n += n
}

// Rest is the text that stands for those beyond the limit.
const Rest = "others, which are not listed"

// Counts returns the counts by text; of a kind that several texts are of, without what they differ in. Those beyond the
// limit are under Rest.
func (t *Texts) Counts() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[string]uint64{}
	for kind, same := range t.kinds {
		text := same.first
		if same.other {
			text = kind
		}
		counts[text] += same.n
	}
	if t.rest > 0 {
		counts[Rest] += t.rest
	}
	return counts
}
