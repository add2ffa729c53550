package printable

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"main.(*T).f[...]":           "main.(*T).f[...]",
		"\x1b]0;OWNED\a\x1b[31mred":  "?]0;OWNED??[31mred",
		"inner-job-\xe5\x90\x8c\xe6": "inner-job-同?",
		"caf\xe9":                    "caf?",
		"a\xff\xfeb":                 "a?b",
		"one\ntwo\r\tthree":          "one two  three",
		"\u009b31m\u202eabc\u2066":   "?31m?abc?",
		"a\u2028b\u0085c":            "a b c",
		"\ufffe\uffff\U0001ffff\x00": "????",
		"żółw 🐢 رشته‌کاری":           "żółw 🐢 رشته‌کاری",
		`<b>"\&`:                     `<b>"\&`,
	} {
		require.Equal(t, want, Text(in), "%q", in)
	}
}

// TestEveryCharacter filters every character, whole and cut: the library's XML reader must accept the result.
func TestEveryCharacter(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r <= utf8.MaxRune; r++ {
		letter := string(r)
		all.WriteString(Text(letter))
		all.WriteString(Text(letter[:len(letter)-1]))
	}
	require.NotContains(t, all.String(), "\x1b")
	var out bytes.Buffer
	require.NoError(t, xml.EscapeText(&out, []byte(all.String())))
	decoder := xml.NewDecoder(strings.NewReader("<a>" + out.String() + "</a>"))
	for {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}
	for _, r := range all.String() {
		require.False(t, r < ' ' || r >= 0x7f && r < 0xa0, "%U", r)
	}
}

// TestWriter writes a text in one piece, and byte by byte.
func TestWriter(t *testing.T) {
	const text = "a\tb\x1b[2J 同 🐢\n\r\xe5\x90x\xff\n"
	const want = "a\tb?[2J 同 🐢\n ?x?\n"
	for name, reader := range map[string]io.Reader{
		"at once": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
	} {
		var out bytes.Buffer
		w := NewWriter(&out)
		n, err := io.Copy(w, reader)
		require.NoError(t, err)
		require.EqualValues(t, len(text), n, name)
		require.Equal(t, want, out.String(), name)
		require.Same(t, &out, Unwrap(w))
		require.Same(t, &out, Unwrap(&out))
	}
	failing := NewWriter(writer{})
	_, err := failing.Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

type writer struct{}

func (writer) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
