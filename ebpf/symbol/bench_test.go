package symbol

import (
	"bytes"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/flame/demangle"
)

// BenchmarkLoad builds the tables of some large programs. Its allocations should be only a little more than the tables.
func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"libstdc++.so.6", "libLLVM-14.so.1", "node", "go"} {
		b.Run(name, func(b *testing.B) {
			path, err := exec.LookPath(name)
			if err != nil {
				path = library(b, name)
			} else if path, err = filepath.EvalSymlinks(path); err != nil {
				b.Fatal(err)
			}
			o, finder := object(b, 1, path), &debugFinder{Finder: debugfile.New(nil, nil)}
			b.ReportAllocs()
			var status Status
			for b.Loop() {
				var n *names
				if n, status = loadNames(o, finder); n == nil {
					b.Fatalf("%+v", status)
				}
				n.close()
			}
			b.ReportMetric(float64(status.Bytes)/float64(status.Symbols), "bytes/symbol")
			b.ReportMetric(float64(status.Symbols)*float64(b.N)/b.Elapsed().Seconds(), "symbols/s")
		})
	}
}

// BenchmarkFrames names random addresses of libstdc++, with and without cache hits.
func BenchmarkFrames(b *testing.B) {
	path := library(b, "libstdc++.so.6")
	functions := nmFunctions(b, path, "-D")
	random := rand.New(rand.NewSource(1))
	for _, bb := range []struct {
		name  string
		cache int
	}{{"cached", 1 << 20}, {"not cached", 1}} {
		b.Run(bb.name, func(b *testing.B) {
			s, o := New(Options{CacheFrames: bb.cache, DebugDirs: []string{"/nonexistent"}}), object(b, 1, path)
			b.ReportAllocs()
			for b.Loop() {
				s.Frames(o, functions[random.Intn(len(functions))].addr, false)
			}
		})
	}
}

// BenchmarkKallsyms reads the running kernel's symbols.
func BenchmarkKallsyms(b *testing.B) {
	content, err := os.ReadFile(DefaultKallsyms)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		symbols, err := parseKallsyms(bytes.NewReader(content))
		if err != nil {
			b.Fatal(err)
		}
		newKernelTable(symbols)
	}
}

func BenchmarkDemangle(b *testing.B) {
	for _, name := range []string{"main", "_ZNSt6vectorIiSaIiEE9push_backERKi"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				demangle.Simplified.Apply(name)
			}
		})
	}
}
