package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/procfs"
)

// separated is a stripped program and what belongs to it.
type separated struct {
	path    string // of the program, below a directory of its own
	debug   []byte // its debug file, which lies nowhere yet
	buildID string
	inner   uint64 // address of the function inner, which only .symtab names
}

const debugName = "program.debug"

// separate makes a program with a debug link to debugName.
func separate(t *testing.T, flags ...string) separated {
	t.Helper()
	path := compile(t, "a.c", chain, append([]string{"-g", "-O1"}, flags...)...)
	debug := filepath.Join(t.TempDir(), debugName)
	s := separated{path: path, inner: nmAddress(t, path, "inner")}
	run(t, "", "objcopy", "--only-keep-debug", path, debug)
	run(t, "", "strip", path)
	run(t, "", "objcopy", "--add-gnu-debuglink="+debug, path)
	s.debug = readFile(t, debug)
	s.buildID = object(t, 0, path).BuildID
	return s
}

func (s *separated) buildIDPath() string {
	return filepath.Join(".build-id", s.buildID[:2], s.buildID[2:]+".debug")
}

func TestDebugFileIsFoundWhereGDBLooks(t *testing.T) {
	const withID, withoutID = "-Wl,--build-id=sha1", "-Wl,--build-id=none"
	for _, tt := range []struct {
		name  string
		flag  string
		place func(s *separated, debugDir string) []string
	}{
		{"build ID", withID, func(s *separated, dir string) []string { return []string{dir, s.buildIDPath()} }},
		{"link, beside", withoutID, func(s *separated, _ string) []string { return []string{filepath.Dir(s.path), debugName} }},
		{"link, .debug", withoutID, func(s *separated, _ string) []string { return []string{filepath.Dir(s.path), ".debug", debugName} }},
		{"link, debug directory", withoutID, func(s *separated, dir string) []string { return []string{dir, filepath.Dir(s.path), debugName} }},
		{"link and build ID", withID, func(s *separated, dir string) []string { return []string{dir, filepath.Dir(s.path), debugName} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program, debugDir := separate(t, tt.flag), t.TempDir()
			o := object(t, 1, program.path)
			s := New(Options{DebugDirs: []string{t.TempDir(), debugDir}})
			if got := s.Frames(o, program.inner, false)[0]; got.Kind != Unknown {
				t.Errorf("without a debug file: %+v", got)
			}
			want := writeFile(t, program.debug, tt.place(&program, debugDir)...)
			s = New(Options{DebugDirs: []string{t.TempDir(), debugDir}})
			if got := s.Frames(o, program.inner, false)[0]; got.Function != "inner" {
				t.Errorf("with %s: %+v", want, got)
			}
			if status, _ := s.Status(o); status.Reason != Named || status.DebugFile != want || status.Err != nil {
				t.Errorf("status %+v, want the debug file %s", status, want)
			}
			// Wrong bytes: another program's debug file under this name.
			other := separate(t, tt.flag, "-DOTHER=1", "-O2")
			writeFile(t, other.debug, want)
			s = New(Options{DebugDirs: []string{debugDir}})
			if got := s.Frames(o, program.inner, false)[0]; got.Kind != Unknown {
				t.Errorf("with a debug file of another program: %+v", got)
			}
			if status, _ := s.Status(o); status.DebugFile != "" || status.Reason == Named {
				t.Errorf("status %+v", status)
			}
		})
	}
}

func TestDebugFileInAContainer(t *testing.T) {
	program, root, debugDir := separate(t, "-Wl,--build-id=sha1"), t.TempDir(), t.TempDir()
	o := object(t, 1, program.path)
	o.Root = root
	inContainer := writeFile(t, program.debug, root, debugDir, program.buildIDPath())
	check := func(name, want string) {
		t.Helper()
		s := New(Options{DebugDirs: []string{debugDir}})
		s.Frames(o, program.inner, false)
		if status, _ := s.Status(o); status.DebugFile != want {
			t.Errorf("%s: debug file %q, want %q", name, status.DebugFile, want)
		}
	}
	check("in the container", inContainer)

	onHost := writeFile(t, program.debug, debugDir, program.buildIDPath())
	check("in both", inContainer)
	if err := os.Remove(inContainer); err != nil {
		t.Fatal(err)
	}
	check("on the host", onHost)
	o.Root = filepath.Join(root, "gone")
	check("the container is gone", onHost)
	if err := os.Remove(onHost); err != nil {
		t.Fatal(err)
	}
	check("nowhere", "")
}

// A link in a container leads to the container's files, also an absolute one, and
// never out of it.
func TestContainerCannotPointOutside(t *testing.T) {
	root := t.TempDir()
	outside := writeFile(t, []byte("outside"), t.TempDir(), "file")
	writeFile(t, []byte("inside"), root, "usr", "file")
	for link, target := range map[string]string{"absolute": "/usr/file", "dots": "../../../../../../usr/file", "escape": outside, "proc": "/proc/self/exe"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
		f, err := procfs.OpenBelow(root, "/"+link)
		if link == "escape" || link == "proc" {
			if err == nil {
				t.Errorf("%s: opened %s", link, target)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", link, err)
			continue
		}
		content := make([]byte, 6)
		if _, err := f.Read(content); err != nil || string(content) != "inside" {
			t.Errorf("%s: %q, %v", link, content, err)
		}
		f.Close()
	}
}

func TestOwnSymtabNeedsNoDebugFile(t *testing.T) {
	path := compile(t, "a.c", chain, "-g", "-Wl,--build-id=sha1")
	o := object(t, 1, path)
	dir := t.TempDir()
	writeFile(t, readFile(t, path), dir, ".build-id", o.BuildID[:2], o.BuildID[2:]+".debug")
	s := New(Options{DebugDirs: []string{dir}})
	s.Frames(o, nmAddress(t, path, "inner"), false)
	if status, _ := s.Status(o); status.Reason != Named || status.DebugFile != "" {
		t.Errorf("status %+v", status)
	}
}

// The C library as the distribution ships it, with its debug package: each of
// its functions by one of the names that nm knows in the debug file, or by the
// one that addr2line tells, which leaves out what a compiler adds to the name of a part.
func TestLibcWithDebugFile(t *testing.T) {
	path := library(t, "libc.so.6")
	s, o := New(Options{}), object(t, 1, path)
	s.Frames(o, 0, false)
	status, _ := s.Status(o)
	if status.DebugFile == "" {
		skip(t, "no debug file of %s (package libc6-dbg)", path)
	}
	functions := nmFunctions(t, status.DebugFile)
	names := map[string]bool{}
	var list strings.Builder
	for _, f := range functions {
		names[fmt.Sprintf("%x %s", f.addr, f.name)] = true
		fmt.Fprintf(&list, "%#x\n", f.addr)
	}
	for i, lines := range strings.Split(run(t, list.String(), "addr2line", "-a", "-i", "-f", "-e", status.DebugFile), "0x")[1:] {
		told := strings.Split(lines, "\n") // the address, then two lines a frame, then none
		names[fmt.Sprintf("%x %s", functions[i].addr, told[len(told)-3])] = true
	}
	wrong := 0
	for _, f := range functions {
		frames := s.Frames(o, f.addr, false)
		if got := frames[len(frames)-1]; !names[fmt.Sprintf("%x %s", f.addr, got.Function)] {
			if wrong++; wrong < 5 {
				t.Errorf("%#x is %+v, nm says %s", f.addr, got, f.name)
			}
		}
	}
	if wrong > 0 || len(functions) < 2000 {
		t.Errorf("%d of %d functions wrong", wrong, len(functions))
	}
}

// A file whose symbol table is damaged still has the names of the other.
func TestBrokenSymtabIsReported(t *testing.T) {
	path := compile(t, "a.c", chain, "-rdynamic")
	data := readFile(t, path)
	var at, size int
	for line := range strings.Lines(run(t, "", "readelf", "-SW", path)) {
		if f := strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(line)); len(f) > 5 && f[1] == ".symtab" {
			at, size = int(parseHex(t, f[4])), int(parseHex(t, f[5]))
		}
	}
	if size == 0 {
		t.Fatal("readelf shows no .symtab")
	}
	for i := range data[at : at+size] {
		data[at+i] = byte(i * 37)
	}
	broken := writeFile(t, data, t.TempDir(), "broken")
	s := New(Options{DebugDirs: []string{t.TempDir()}})
	o := &Object{ID: 1, Path: broken, Open: func() (*elffile.File, error) { return elffile.Open(broken) }}
	if got := s.Frames(o, nmAddress(t, path, "main"), false)[0]; got.Function != "main" {
		t.Errorf("main is %+v", got)
	}
}
