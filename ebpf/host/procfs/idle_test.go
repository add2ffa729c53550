package procfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCPUTimes(t *testing.T) {
	dir := t.TempDir()
	// The example of proc_stat(5), with a second CPU.
	stat := "cpu  10132153 290696 3084719 46828483 16683 0 25195 0 175628 0\ncpu0 1393280 32966 572056 13343292 6130 0 " +
		"17875 0 23933 0\ncpu12 1 2 3 4 5 0 0 0 0 0\nctxt 1\n"
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := FS{Root: dir}.CPUTimes()
	want := map[int]CPUTime{
		0:  {133494220 * time.Millisecond, 20161770 * time.Millisecond},
		12: {90 * time.Millisecond, 60 * time.Millisecond},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("times: %v, -want +got\n%s", err, d)
	}
}
