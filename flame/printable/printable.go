// Package printable filters untrusted text: names of processes, files and functions. Such text may contain control
// sequences for terminals, characters that readers of XML or of profiles refuse, and characters that were cut in two.
// All text for users or receivers passes through this package once.
package printable

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// replacement replaces the filtered characters.
const replacement = '?'

// Text returns s as valid UTF-8 in one line that does not control a terminal and is allowed in XML. Line ends and
// tabulators become blanks. Other control characters, characters that change the direction of text, and invalid UTF-8
// become question marks, one for each run of invalid bytes.
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

// filtered returns the replacement of r, or r itself.
func filtered(r rune) rune {
	switch {
	case r == '\n', r == '\r', r == '\t', r == '\v', r == '\f', r == 0x85, r == 0x2028, r == 0x2029:
		return ' '
	case r < ' ', r >= 0x7f && r < 0xa0: // control characters
		return replacement
	case r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // directions
		return replacement
	case r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef: // noncharacters
		return replacement
	}
	return r
}

// Writer filters text of several lines for another writer. It is like Text, but keeps newlines and tabulators. Its
// methods may be called concurrently.
type Writer struct {
	to io.Writer

	mu  sync.Mutex
	cut []byte // the start of a character whose rest is not written yet
}

// NewWriter returns a Writer that writes to to.
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

// cutLetter returns the number of bytes at the end of b that are the start of an incomplete character.
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

// Unwrap returns the destination of a Writer, and any other io.Writer unchanged. It is for output that must be exact,
// such as the output of another program.
func Unwrap(w io.Writer) io.Writer {
	if filter, ok := w.(*Writer); ok {
		return filter.to
	}
	return w
}
