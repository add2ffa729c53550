package symbol

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// hidden is a program without names in a stripped file, except its imports from libc.
const hidden = `
#include <stdio.h>
static __attribute__((noinline)) int leaf(int n) { return n * 3 + getchar(); }
static __attribute__((noinline)) int inner(int n) { return leaf(n) + leaf(n + 1); }
__attribute__((noinline)) int outer(int n) { return inner(n) + 5; }
int main(int argc, char **argv) { return outer(argc) - 2; }`

// TestStartsMatchReadelf names every address of the text of files without symbols: the name is the start of the
// address's FDE according to readelf, or the address itself if there is no FDE.
func TestStartsMatchReadelf(t *testing.T) {
	plain := []string{"-O1"}
	debugOnly := []string{"-O1", "-g", "-fno-asynchronous-unwind-tables", "-fno-exceptions"}
	for _, c := range []struct {
		name         string
		sections     []string
		flags, strip []string
	}{
		{"eh_frame", []string{".eh_frame"}, plain, nil},
		{"without the index", []string{".eh_frame"}, plain, []string{"--remove-section=.eh_frame_hdr"}},
		{"debug_frame", []string{".debug_frame", ".eh_frame"}, debugOnly, []string{"--keep-section=.debug_frame"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := compile(t, "a.c", hidden, c.flags...)
			stripped := filepath.Join(t.TempDir(), "shopd")
			run(t, "", "objcopy", append(append([]string{"--strip-all"}, c.strip...), whole, stripped)...)
			var entries []ehtest.FDE
			for _, section := range c.sections {
				entries = append(entries, ehtest.Interp(t, whole, section)...)
			}
			s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, stripped)
			for _, f := range nmFunctions(t, whole) {
				for at := f.addr; at < f.addr+f.size; at++ {
					want := at
					for _, e := range entries {
						if e.Start <= at && at < e.End {
							want = e.Start
						}
					}
					expected := Frame{Function: fmt.Sprintf("shopd+0x%x", want), Kind: Unknown}
					if got := s.Frames(o, at, false); len(got) != 1 || got[0] != expected {
						t.Errorf("%s at %#x: %+v, want %+v", f.name, at, got, expected)
					}
				}
				if got := s.Frames(o, f.addr+f.size, true)[0]; f.name == "inner" &&
					got.Function != fmt.Sprintf("shopd+0x%x", f.addr) {
					t.Errorf("a call at the end of %s: %+v, nm says %#x", f.name, got, f.addr)
				}
			}
			if status, _ := s.Status(o); status.Reason == Named {
				t.Errorf("a start is no name: %+v", status)
			}
		})
	}
}

// TestStartsWithoutSymbols: a file with only call frame information has no names, and its table is small.
func TestStartsWithoutSymbols(t *testing.T) {
	flags := []string{"-O1", "-nostdlib", "-static"}
	const source = "__attribute__((noinline)) int f(int n) { return n + 1; } int _start(int n) { return f(n) * 2; }"
	whole, stripped := compile(t, "a.c", source, flags...), compile(t, "a.c", source, append(flags, "-s")...)
	s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, stripped)
	for _, f := range nmFunctions(t, whole) {
		want := Frame{Function: fmt.Sprintf("program+0x%x", f.addr), Kind: Unknown}
		if got := s.Frames(o, f.addr+f.size-1, false)[0]; got != want {
			t.Errorf("%s: %+v, want %+v", f.name, got, want)
		}
	}
	if status, ok := s.Status(o); !ok || status.Reason != NoSymbols {
		t.Errorf("%+v", status)
	}
	if got := s.Stats(); got.Tables != 1 || got.TableBytes > 64<<10 {
		t.Errorf("%+v", got)
	}
}

// TestStartsOfCopies: two objects of one source are named after their own paths.
func TestStartsOfCopies(t *testing.T) {
	whole := compile(t, "a.c", hidden, "-O1")
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	for _, path := range []string{first, second} {
		run(t, "", "objcopy", "--strip-all", whole, path)
	}
	a, b := object(t, 1, first), object(t, 2, second)
	b.Source = a
	s, at := New(Options{DebugDirs: []string{t.TempDir()}}), nmAddress(t, whole, "outer")
	for _, o := range []*Object{a, b} {
		if got, want := s.Frames(o, at+2, false)[0].Function, unknownName(o.Path, at); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestStartsOfSystemFiles names the middle of every FDE of the system's libraries and programs: unnamed code must have
// the start that readelf shows.
func TestStartsOfSystemFiles(t *testing.T) {
	for _, path := range ehtest.Files(t) {
		s, o, asked := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, path), 0
		for _, e := range ehtest.Interp(t, path, ".eh_frame") {
			at := e.Start + (e.End-e.Start)/2
			got := s.Frames(o, at, false)[0]
			if got.Kind != Unknown {
				continue
			}
			asked++
			if want := unknownName(path, e.Start); got.Function != want {
				t.Errorf("%s: %#x is %s, want %s", path, at, got.Function, want)
			}
		}
		t.Logf("%s: %d functions without a name", path, asked)
	}
}

func BenchmarkStarts(b *testing.B) {
	path := library(b, "libcrypto.so.3")
	f, err := elffile.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	text := f.TextSegments()[0]
	s := newStarts(f)
	for i := 0; b.Loop(); i++ {
		s.startOf(text.Vaddr + uint64(i)*7919%text.Memsz)
	}
}
