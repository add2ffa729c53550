package elffile

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// patchSection changes a header in a copy of an image: the offset and size of section name.
func patchSection(t *testing.T, path, name string, offset, size uint64) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer parsed.Close()
	shoff := int(binary.LittleEndian.Uint64(data[40:]))
	for i, s := range parsed.Sections {
		if s.Name == name {
			header := data[shoff+i*64:]
			binary.LittleEndian.PutUint64(header[24:], offset)
			binary.LittleEndian.PutUint64(header[32:], size)
			patched := filepath.Join(t.TempDir(), "patched")
			if err := os.WriteFile(patched, data, 0o644); err != nil {
				t.Fatal(err)
			}
			return patched
		}
	}
	t.Fatalf("%s has no section %s", path, name)
	return ""
}

// A sparse file takes no disk space and may have sections of any size.
func TestSparseSections(t *testing.T) {
	const size = 3 << 30
	library := compile(t, "int f(void) { return 0; }", "-shared", "-nostdlib", "-Wl,-e,f", "-g", "-Wl,--build-id")
	for _, section := range []string{".dynamic", ".dynstr", ".dynsym", ".symtab", ".strtab", ".eh_frame", ".debug_info",
		".note.gnu.build-id"} {
		path := patchSection(t, library, section, 1<<20, size)
		if err := os.Truncate(path, 2<<40); err != nil {
			t.Fatal(err)
		}
		f := open(t, path)
		if used := allocatedBytes(func() { exercise(f) }); used > 64<<20 {
			t.Errorf("%s of %d bytes: %d MiB allocated", section, size, used>>20)
		}
	}
}

// bomb returns a program whose section .debug_info is zeros, compressed.
func bomb(t *testing.T, size int, form string) string {
	t.Helper()
	need.Tools(t, "gcc", "objcopy")
	key := []string{testkit.Version(t, "gcc"), testkit.Version(t, "objcopy"), form, strconv.Itoa(size)}
	made := testkit.Fixture(t, "bomb", key, func(dir string) error {
		if err := gcc(dir, "int main(void) { return 0; }", nil); err != nil {
			return err
		}
		zeros, plain := filepath.Join(dir, "zeros"), filepath.Join(dir, "plain")
		defer os.Remove(zeros)
		defer os.Remove(plain)
		if err := os.WriteFile(zeros, nil, 0o644); err != nil {
			return err
		}
		if err := os.Truncate(zeros, int64(size)); err != nil {
			return err
		}
		for _, args := range [][]string{
			{"--add-section", ".debug_info=" + zeros, filepath.Join(dir, "a.out"), plain},
			{"--compress-debug-sections=" + form, plain, filepath.Join(dir, "bomb")},
		} {
			if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
				return fmt.Errorf("objcopy %q: %w\n%s", args, err, out)
			}
		}
		return nil
	})
	return filepath.Join(made, "bomb")
}

func isHit(t *testing.T, err error, want limit.Reader) {
	t.Helper()
	var hit *limit.Error
	if !errors.As(err, &hit) || hit.Reader != want {
		t.Errorf("%v, want a limit of %s", err, want)
	}
}

func TestDecompressionBomb(t *testing.T) {
	for _, form := range []string{"zlib", "zlib-gnu", "zstd"} {
		f := open(t, bomb(t, 128<<20, form))
		spill := &Spill{Dir: t.TempDir()}
		var err error
		if used := allocatedBytes(func() { _, err = f.Section(".debug_info") }); used > 1<<20 {
			t.Errorf("%s: %d MiB allocated", form, used>>20)
		}
		isHit(t, err, limit.Decompressed)
		_, err = f.MapSection(".debug_info", spill)
		isHit(t, err, limit.Decompressed)
		if spill.Used() != 0 {
			t.Errorf("%s: %d bytes in use", form, spill.Used())
		}
	}
}

// Sections that compress as well as debug info are bounded by file, by rate and by End.
func TestSpillBounds(t *testing.T) {
	plain := compile(t, "int main(void) { return 0; }", "-g")
	path := filepath.Join(t.TempDir(), "program")
	run(t, "objcopy", "--compress-debug-sections=zlib", plain, path)
	size := int64(0)
	if s, err := open(t, plain).Section(".debug_info"); err != nil {
		t.Fatal(err)
	} else {
		size = int64(len(s.Data))
	}

	f := open(t, path)
	spill := &Spill{Dir: t.TempDir(), FileLimit: 2*size + 1}
	for range 2 {
		m, err := f.MapSection(".debug_info", spill)
		if err != nil {
			t.Fatal(err)
		}
		if spill.Used() != size {
			t.Errorf("%d bytes in use, want %d", spill.Used(), size)
		}
		m.Close()
	}
	_, err := f.MapSection(".debug_info", spill)
	isHit(t, err, limit.Decompressed)
	if m, err := open(t, path).MapSection(".debug_info", spill); err != nil {
		t.Errorf("another file: %v", err)
	} else {
		m.Close()
	}

	spill = &Spill{Dir: t.TempDir(), Rate: rate.NewLimiter(0, int(size))}
	for i := range 2 {
		m, err := open(t, path).MapSection(".debug_info", spill)
		if i == 0 && err == nil {
			defer m.Close()
		} else if i == 1 && !errors.Is(err, ErrBusy) {
			t.Errorf("beyond the rate: %v", err)
		}
	}

	spill = &Spill{Dir: t.TempDir()}
	spill.End()
	if _, err := open(t, path).MapSection(".debug_info", spill); !errors.Is(err, errEnded) || spill.Used() != 0 {
		t.Errorf("after the end: %v, %d bytes in use", err, spill.Used())
	}
}

func TestUnpackTime(t *testing.T) {
	endless := &timed{from: zeros{}, until: time.Now().Add(50 * time.Millisecond)}
	_, err := readAll(endless, 1<<40)
	isHit(t, err, limit.Decompressed)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return min(len(p), 1), nil }
