package elffile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// slowFile is a file that is not local.
type slowFile struct{ *os.File }

// TestCopies copies files until the limit for all copies is reached, and copies again after one is
// closed.
func TestCopies(t *testing.T) {
	image, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	copies := &Copies{Limit: int64(len(image)) * 3 / 2}
	openCopy := func() (*File, error) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return copies.Open(slowFile{f})
	}
	first, err := openCopy()
	if err != nil {
		t.Fatal(err)
	}
	_, err = openCopy()
	if isHit(t, err, limit.Copied); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openCopy(); err == nil {
		t.Error("what is no program was opened")
	}
	content := make([]byte, len(image))
	if _, err := first.r.ReadAt(content, 0); err != nil || !bytes.Equal(content, image) {
		t.Errorf("the copy is not what the file was (%v)", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if used := copies.used.Load(); used != 0 {
		t.Errorf("%d bytes are in use when all are closed", used)
	}
	if err := os.Truncate(path, MaxCopy+1); err != nil {
		t.Fatal(err)
	}
	_, err = openCopy()
	isHit(t, err, limit.Copied)
}
