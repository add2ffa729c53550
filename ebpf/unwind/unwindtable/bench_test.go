package unwindtable

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
	"github.com/headwater/headwater/integration/testkit/need"
)

// BenchmarkPage builds the pages of libc's text, one after the other.
func BenchmarkPage(b *testing.B) {
	benchmarkPages(b, "/lib/x86_64-linux-gnu/libc.so.6", 0x28, 0x170)
}

// BenchmarkPageOfLLVM builds pages here and there in a large library.
func BenchmarkPageOfLLVM(b *testing.B) {
	benchmarkPages(b, "/lib/x86_64-linux-gnu/libLLVM-14.so.1", 0x1000, 0x2000)
}

func benchmarkPages(b *testing.B, path string, first, last uint64) {
	if _, err := os.Stat(path); err != nil {
		need.Missing(b, "%v", err)
	}
	table := openTable(b, path)
	rows, n := 0, first
	b.ReportAllocs()
	for b.Loop() {
		page, err := table.Page(n, unwind.MinPageShift)
		if err != nil {
			b.Fatal(err)
		}
		rows += len(page.Rows)
		if n++; n == last {
			n = first
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
	b.ReportMetric(float64(rows)/float64(b.N), "rows/page")
}

// BenchmarkHotPage measures one page of a large library that is seen for the first time, starting
// with opening the file.
func BenchmarkHotPage(b *testing.B) {
	path := largest(b)
	b.ReportAllocs()
	for b.Loop() {
		hotPage(b, path)
	}
}

// largest returns the path of a library with much text.
func largest(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/lib/x86_64-linux-gnu/libLLVM-14.so.1", "/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/lib/x86_64-linux-gnu/libc.so.6"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	need.Missing(t, "this is no x86-64 Debian system")
	return ""
}

// hotPage builds the page in the middle of the text of a new file.
func hotPage(t testing.TB, path string) *unwind.Page {
	t.Helper()
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	text := f.TextSegments()[0]
	page, err := table.Page((text.Vaddr+text.Memsz/2)>>unwind.MaxPageShift, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// TestMemoryOfHotPage checks that the memory for a page depends on the page's size, not on the
// library's.
func TestMemoryOfHotPage(t *testing.T) {
	path := largest(t)
	hotPage(t, path)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	page := hotPage(t, path)
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	if used > 1<<20 || len(page.Rows) < 100 {
		t.Errorf("%s: %d bytes allocated for a page of %d rows, want less than 1 MiB", path, used, len(page.Rows))
	}
	t.Logf("%s: %d bytes for a page of %d rows", path, used, len(page.Rows))
}

// BenchmarkPageSize builds all pages of an executable in three sizes, to choose the size. It
// reports the rows per non-empty page, the bytes per row including the directory and wide rules,
// and the time per page.
func BenchmarkPageSize(b *testing.B) {
	large := map[string]string{}
	if os.Getenv("HEADWATER_LARGE") == "1" {
		large = ehtest.LargeFiles(b)
	}
	for _, path := range ehtest.Files(b)[:2] {
		large[filepath.Base(path)] = path
	}
	for name, path := range large {
		for _, size := range []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				if path == "" {
					need.Missing(b, "%s is not installed", name)
				}
				benchmarkPageSize(b, path, size)
			})
		}
	}
}

func benchmarkPageSize(b *testing.B, path string, size int) {
	f, err := elffile.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	table, err := New(f)
	if err != nil {
		b.Fatal(err)
	}
	builder := newBuilder(table)
	var counts []int
	rows, words, pages := 0, 0, 0
	for b.Loop() {
		counts, rows, words, pages = counts[:0], 0, 0, 0
		for _, s := range f.TextSegments() {
			for lo := s.Vaddr &^ uint64(size-1); lo < s.Vaddr+s.Memsz; lo += uint64(size) {
				page, err := builder.build(lo, size)
				if err != nil {
					b.Fatal(err)
				}
				pages++
				rows += len(page.Rows)
				words += 1 + len(page.Words())
				if len(page.Rows) > 0 {
					counts = append(counts, len(page.Rows))
				}
			}
		}
	}
	slices.Sort(counts)
	b.ReportMetric(float64(counts[len(counts)/2]), "rows/page-median")
	b.ReportMetric(float64(counts[len(counts)-1]), "rows/page-max")
	b.ReportMetric(float64(8*words)/float64(rows), "B/row")
	b.ReportMetric(float64(8*words), "B")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(counts)), "ns/page")
}
