package river

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

func writeFiles(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return folder
}

func TestReadFolder(t *testing.T) {
	folder := writeFiles(t, map[string]string{
		"b.river":       "test.value \"b\" { }\n",
		"a.alloy":       "test.value \"a\" {\n\tin = test.value.b.out\n}\n",
		"notes.txt":     "not River",
		"deep/c.river":  "not River either",
		"d.river/x.txt": "a folder with the name of a file",
	})
	h := newHost(t)
	require.NoError(t, h.LoadPath(folder))
	infos := h.Components()
	require.Len(t, infos, 2)
	require.Equal(t, "test.value.a", infos[0].LocalID)
	require.Equal(t, []string{"test.value.b"}, infos[0].ReferencesTo)
	require.Equal(t, []string{"test.value.a"}, infos[1].ReferencedBy)

	source, err := ReadSource(folder)
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256([]byte("test.value \"a\" {\n\tin = test.value.b.out\n}\ntest.value \"b\" { }\n")),
		source.SHA256())
}

func TestReadFolderReportsAllFiles(t *testing.T) {
	folder := writeFiles(t, map[string]string{"a.river": "x = \n", "b.river": "y = ]\n"})
	h := newHost(t)
	err := h.LoadPath(folder)
	a, b := filepath.Join(folder, "a.river"), filepath.Join(folder, "b.river")
	text := printed(t, err)
	require.Contains(t, text, "Error: "+a+":")
	require.Contains(t, text, "Error: "+b+":1:5: expected expression, got ]\n\n1 | y = ]\n  |     ^\n")
}

func TestReadNothing(t *testing.T) {
	folder := writeFiles(t, map[string]string{"notes.txt": ""})
	_, err := ReadSource(folder)
	require.EqualError(t, err, "folder "+folder+" holds no .river or .alloy file")
	_, err = ReadSource(filepath.Join(folder, "nowhere.river"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTextEncodings(t *testing.T) {
	text := "test.value \"a\" {\n\tin = \"grüße 😀\"\n}\n"
	encode := func(order binary.AppendByteOrder, mark ...byte) []byte {
		encoded := mark
		for _, unit := range utf16.Encode([]rune(text)) {
			encoded = order.AppendUint16(encoded, unit)
		}
		return encoded
	}
	for name, file := range map[string][]byte{
		"UTF-8":                  []byte(text),
		"UTF-8 with a mark":      append([]byte{0xEF, 0xBB, 0xBF}, text...),
		"UTF-16, little endian":  encode(binary.LittleEndian, 0xFF, 0xFE),
		"UTF-16, big endian":     encode(binary.BigEndian, 0xFE, 0xFF),
		"UTF-16, an odd byte on": append(encode(binary.LittleEndian, 0xFF, 0xFE), '\n'),
	} {
		h := newHost(t)
		source, err := Parse(map[string][]byte{"c.river": file})
		require.NoError(t, err, name)
		require.NoError(t, h.Load(source), name)
		require.Equal(t, "grüße 😀", h.out("test.value.a"), name)
	}
	_, err := Parse(map[string][]byte{"c.river": {'x', ' ', '=', ' ', '"', 0xC3, '"'}})
	require.EqualError(t, err, "reading c.river: the text is not valid UTF-8")
}

// FuzzLoad loads any text. It must be accepted or refused, without a panic, and refused text must
// not be loaded.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/invalid/*.river", "testdata/valid/*.river"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("no seeds match %s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer testkit.Cheap(t, len(text))()
		h := newHost(t)
		source, err := Parse(map[string][]byte{"c.river": text})
		if err != nil {
			return
		}
		if err := h.Load(source); err != nil {
			require.NotEmpty(t, printed(t, err))
			require.False(t, h.Ready())
			return
		}
		for _, info := range h.Components() {
			_, found := h.Component(info.LocalID)
			require.True(t, found)
		}
	})
}
