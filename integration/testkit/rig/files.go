package rig

import (
	"os"
	"path/filepath"
	"testing"
)

// WriteFile writes a text to a file, and replaces an existing one.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns the text of a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// PublicDir returns a folder that all users may read and write.
func PublicDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, each := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(each, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
