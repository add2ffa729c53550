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

// maxText is the number of bytes of an untrusted text to show.
const maxText = 512

// Text returns an untrusted text, such as an error with the name of a user's file, in a form to show: unprintable
// characters are escaped, and long texts are cut.
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

// Texts counts untrusted texts, such as errors, by kind: texts that differ only in addresses of memory or in numbers of
// processes are of one kind. The zero value is ready to use. Its methods may be called concurrently.
type Texts struct {
	Most int // maximum number of kinds; the rest are counted together. 0 for 256

	mu    sync.Mutex
	kinds map[string]*sameKind
	rest  uint64
}

// sameKind is the count of a kind.
type sameKind struct {
	first string // the first text
	other bool   // a later text differed
	n     uint64
}

// The parts that may differ between texts of a kind: addresses, and numbers of processes, threads and types of objects.
var (
	addresses = regexp.MustCompile(`0x[0-9a-fA-F]+`)
	processes = regexp.MustCompile(`\b(process|thread|type)( |es |s )[0-9]+|/(proc|task)/[0-9]+`)
)

// kindOf returns the kind of a text: the text without the parts that may differ.
func kindOf(text string) string {
	text = addresses.ReplaceAllLiteralString(text, "0x...")
	return processes.ReplaceAllStringFunc(text, func(s string) string {
		return strings.TrimRight(s, "0123456789") + "..."
	})
}

// Add counts a text, in the form of Text, n times.
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

// Rest is the text for all texts beyond Texts.Most.
const Rest = "others, which are not listed"

// Counts returns the counts by text. A kind with several texts is shown without the parts that differ. Texts beyond the
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
