package cli

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/cli/internal/profilefile"
	"github.com/headwater/headwater/flame/export"
)

// hostileName is what a program may call itself and its functions: it sets a terminal's title and color, turns the
// direction of text, ends a line, is cut in the middle of a letter, and has what no XML may hold.
const hostileName = "\x1b]0;OWNED\a\x1b[31mred\u202e\u009b2J\n\xe5\x90 \ufffe\x00 <b>;&\""

// hostileProfile writes a profile from another tool in which all text is hostile, and folded stacks.
func hostileProfile(t *testing.T) (pprof, folded string) {
	t.Helper()
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	m := &profile.Mapping{ID: 1, File: "/bin/" + hostileName, Limit: 1 << 20, BuildID: hostileName}
	f := &profile.Function{ID: 1, Name: hostileName, SystemName: "_Z" + hostileName, Filename: "/src/" + hostileName}
	named := &profile.Location{ID: 1, Mapping: m, Address: 16, Line: []profile.Line{{Function: f, Line: 3}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 10e6, DurationNanos: 1e9,
		Mapping: []*profile.Mapping{m}, Function: []*profile.Function{f},
		Location: []*profile.Location{named, {ID: 2, Mapping: m, Address: 32}},
		Comments: []string{hostileName},
	}
	p.Sample = []*profile.Sample{{
		Location: []*profile.Location{p.Location[1], named}, Value: []int64{30e6},
		Label:    map[string][]string{"thread_name": {hostileName}, "comm": {hostileName}, "k" + hostileName: {"v"}},
		NumLabel: map[string][]int64{"n" + hostileName: {1}}, NumUnit: map[string][]string{"n" + hostileName: {hostileName}},
	}}
	var out bytes.Buffer
	require.NoError(t, p.Write(&out))
	pprof, folded = filepath.Join(t.TempDir(), "p.pb.gz"), filepath.Join(t.TempDir(), "p.folded")
	require.NoError(t, os.WriteFile(pprof, out.Bytes(), 0o644))
	line := strings.ReplaceAll(hostileName, "\n", "")
	require.NoError(t, os.WriteFile(folded, []byte("main 1\n"+line+";"+line+" 3\n"), 0o644))
	return pprof, folded
}

// requirePrintable fails if a terminal would obey text, or a reader of text refuse it.
func requirePrintable(t *testing.T, of, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), "%s: %q", of, text)
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0xfffe {
			t.Fatalf("%s: %q in %q", of, r, text)
		}
	}
}

// TestNamesDoNothing has each command and each format show a profile whose names are hostile.
func TestNamesDoNothing(t *testing.T) {
	pprof, folded := hostileProfile(t)
	for _, path := range []string{pprof, folded} {
		for _, args := range [][]string{
			{"report", path}, {"report", "--tree", path}, {"report", "--folded", path}, {"summary", path}, {"script", path},
			{"report", "--by", "comm", path}, {"diff", "--all", path, path},
		} {
			stdout, stderr, _ := call(t, args...)
			requirePrintable(t, fmt.Sprint(args), stdout+stderr)
			if path == pprof {
				require.Contains(t, stdout+stderr, "OWNED", "%q", args)
			}
		}
	}
	read, err := profilefile.Read(t.Context(), pprof, nil)
	require.NoError(t, err)
	for _, format := range export.Formats() {
		if format.Name == "pprof" || format.Name == "pgo" {
			continue
		}
		var out bytes.Buffer
		if err := format.Write(&out, read); err != nil {
			require.True(t, format.Times || format.Name == "autofdo", "%s: %v", format.Name, err)
			continue
		}
		requirePrintable(t, format.Name, strings.ReplaceAll(out.String(), "\r", ""))
		if format.Name == "svg" {
			decoder := xml.NewDecoder(&out)
			for {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else {
					require.NoError(t, err)
				}
			}
		}
	}
}

// TestErrorsDoNothing makes the program print hostile arguments on its standard error.
func TestErrorsDoNothing(t *testing.T) {
	for _, args := range [][]string{
		{"report", "/none/\x1b]0;OWNED\a"}, {"OWNED\x1b[31m"}, {"record", "-a", "--format", "OWNED\x1b[31m"},
		{"validate", "/none/OWNED\x1b[31m"}, {"record", "-q", "--", "/none/OWNED\x1b[31m"},
	} {
		stdout, stderr, code := result(t, headwater(t, args...))
		require.NotZero(t, code)
		requirePrintable(t, fmt.Sprintf("%q", args), stdout+stderr)
		require.Contains(t, stderr, "OWNED", "%q", args)
	}
}
