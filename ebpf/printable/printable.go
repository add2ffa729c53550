// Package printable filters text that others chose: names of processes, files and functions. Such text may hold what
// a terminal obeys, what readers of XML and of profiles refuse, and letters that were cut in two. All that a user sees
// or a receiver gets goes through here once.
package printable

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// replacement stands for what is filtered.
const replacement = '?'

// Text returns s as valid UTF-8 in one line that does nothing to a terminal, and that XML may hold. Line ends and
// tabulators become blanks; other control characters, those that change the direction of text, and bytes that are no
// UTF-8 become question marks, one for each row of such bytes.
func Text(s string) string {
	if isPlain(s) {
		return s
	}
	return strings.Map(filtered, strings.ToValidUTF8(s, string(replacement)))
}

// isPlain reports whether s is printable ASCII, as almost all names are.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// filtered returns what r becomes.
func filtered(r rune) rune {
	switch {
	case r == '\n', r == '\r', r == '\t', r == '\v', r == '\f', r == 0x85, r == 0x2028, r == 0x2029:
		return ' '
	case r < ' ', r >= 0x7f && r < 0xa0: // control characters
		return replacement
	case r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // directions
		return replacement
	case r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef: // no characters
		return replacement
	}
	return r
}

// Writer filters the text of several lines on its way to another writer, as Text does but for line ends and
// tabulators. Its methods may be called concurrently.
type Writer struct {
	to io.Writer

	mu  sync.Mutex
	cut []byte // the begin of a letter whose rest was not written yet
}

// NewWriter returns a Writer to another one.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.cut, p...)
	whole := len(text) - cutLetter(text)
	w.cut = append([]byte(nil), text[whole:]...)
	out := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return filtered(r)
	}, strings.ToValidUTF8(string(text[:whole]), string(replacement)))
	if _, err := io.WriteString(w.to, out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cutLetter returns how many bytes at the end of b are the begin of a letter.
func cutLetter(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Unwrap returns what a Writer writes to, and any other writer itself. It is for what must be exact, such as the
// output of another program.
func Unwrap(w io.Writer) io.Writer {
	if filter, ok := w.(*Writer); ok {
		return filter.to
	}
	return w
}
