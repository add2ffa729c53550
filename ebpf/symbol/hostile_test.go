package symbol

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/limit"
)

// hostileLink makes a program without build ID whose debug file, named by its link,
// goes on with zeros up to size.
func hostileLink(t *testing.T, size int64) (program separated, debug string) {
	t.Helper()
	program = separate(t, "-Wl,--build-id=none")
	debug = writeFile(t, program.debug, filepath.Dir(program.path), debugName)
	if err := os.Truncate(debug, size); err != nil {
		t.Fatal(err)
	}
	return program, debug
}

// A sparse file of 2 TiB would be read for ten minutes to learn its check sum.
func TestSparseDebugFile(t *testing.T) {
	program, debug := hostileLink(t, 2<<40)
	s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, program.path)
	began := time.Now()
	if got := s.Frames(o, program.inner, false)[0]; got.Kind != Unknown {
		t.Errorf("%+v", got)
	}
	s.refresh(began.Add(time.Hour))
	if took := time.Since(began); took > MaxLinkedTime+2*time.Minute { // the machine may do much else
		t.Errorf("naming took %v", took)
	}
	if status, _ := s.Status(o); !errors.Is(status.Err, elffile.ErrTooLarge) {
		t.Errorf("status %+v", status)
	}
	if hits := s.LimitHits()[limit.DebugLink]; hits == 0 {
		t.Error("the limit was not counted")
	}
	// Another file keeps its names, and this one has its own once it is whole.
	other := separate(t, "-Wl,--build-id=none", "-DOTHER=1")
	writeFile(t, other.debug, filepath.Dir(other.path), debugName)
	if got := s.Frames(object(t, 2, other.path), other.inner, false)[0]; got.Function != "inner" {
		t.Errorf("another file: %+v", got)
	}
	writeFile(t, program.debug, debug)
	s.refresh(time.Now().Add(2 * time.Hour))
	if got := s.Frames(o, program.inner, false)[0]; got.Function != "inner" {
		t.Errorf("after it was written again: %+v", got)
	}
}

func TestCheckSums(t *testing.T) {
	const most = 64 << 20
	path := filepath.Join(t.TempDir(), "file")
	sum := func(c *checkSums) (uint32, error) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return c.of(f)
	}
	writeFile(t, []byte("123456789"), path)
	c := newCheckSums(most)
	if got, err := sum(c); got != 0xcbf43926 || err != nil { // the check value of CRC-32/ISO-HDLC
		t.Errorf("%#x, %v", got, err)
	}
	// What was read is remembered, and bytes read are bounded in the long run.
	if err := os.Truncate(path, most); err != nil {
		t.Fatal(err)
	}
	c = newCheckSums(most)
	first, err := sum(c)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := sum(c); again != first || err != nil {
		t.Errorf("again: %#x, %v, want %#x", again, err, first)
	}
	if err := os.Chtimes(path, time.Time{}, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := sum(c); !errors.Is(err, elffile.ErrBusy) {
		t.Errorf("beyond the rate: %v", err)
	}
	c = newCheckSums(most)
	c.ended.Store(true)
	if _, err := sum(c); !errors.Is(err, errStopped) {
		t.Errorf("at the end: %v", err)
	}
}
