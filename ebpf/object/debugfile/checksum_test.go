package debugfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// TestCheckSums requires the sum that CRC-32 is defined by, and that sums are remembered and bounded.
func TestCheckSums(t *testing.T) {
	const most = 64 << 20
	path := filepath.Join(t.TempDir(), "file")
	sum := func(c *checkSums) (uint32, error) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return c.sumOf(f)
	}
	if err := os.WriteFile(path, []byte("123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newCheckSums(most)
	if got, err := sum(c); got != 0xcbf43926 || err != nil { // the check value of CRC-32/ISO-HDLC
		t.Errorf("%#x, %v", got, err)
	}
	// The checksum is remembered, and the long-term rate of reads is bounded.
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
