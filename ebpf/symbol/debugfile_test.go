package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/need"
)

// separated is a stripped program and its debug data.
type separated struct {
	path    string // of the program, in its own directory
	debug   []byte // its debug file, which is not on disk yet
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
		{"link, next to it", withoutID, func(s *separated,
			_ string) []string {
			return []string{filepath.Dir(s.path), debugName}
		}},
		{"link, .debug", withoutID, func(s *separated,
			_ string) []string {
			return []string{filepath.Dir(s.path), ".debug", debugName}
		}},
		{"link, debug directory", withoutID, func(s *separated,
			dir string) []string {
			return []string{dir, filepath.Dir(s.path), debugName}
		}},
		{"link and build ID", withID, func(s *separated,
			dir string) []string {
			return []string{dir, filepath.Dir(s.path), debugName}
		}},
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
			// Wrong content: the debug file of another program under this name.
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

// A link in a container, also an absolute one, leads to the container's files, and never out of the container.
func TestContainerCannotPointOutside(t *testing.T) {
	root := t.TempDir()
	outside := writeFile(t, []byte("outside"), t.TempDir(), "file")
	writeFile(t, []byte("inside"), root, "usr", "file")
	for link, target := range map[string]string{"absolute": "/usr/file", "dots": "../../../../../../usr/file",
		"escape": outside, "proc": "/proc/self/exe"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
		f, err := procfs.Open(root, "/"+link)
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
		if _, err := f.ReadAt(content, 0); err != nil || string(content) != "inside" {
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

// The C library of the distribution, with its debug package: each of its functions has one of the names that nm shows
// for the debug file, or the name that addr2line reports, which omits the compiler's suffixes for parts.
func TestLibcWithDebugFile(t *testing.T) {
	path := library(t, "libc.so.6")
	s, o := New(Options{}), object(t, 1, path)
	s.Frames(o, 0, false)
	status, _ := s.Status(o)
	if status.DebugFile == "" {
		need.Missing(t, "no debug file of %s (package libc6-dbg)", path)
	}
	functions := nmFunctions(t, status.DebugFile)
	names := map[string]bool{}
	var list strings.Builder
	for _, f := range functions {
		names[fmt.Sprintf("%x %s", f.addr, f.name)] = true
		fmt.Fprintf(&list, "%#x\n", f.addr)
	}
	for i, lines := range strings.Split(run(t, list.String(), "addr2line", "-a", "-i", "-f", "-e", status.DebugFile),
		"0x")[1:] {
		told := strings.Split(lines, "\n") // the address, then two lines a frame, then an empty line
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

// A file with a damaged symbol table still has the names of its other one.
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

// TestDebugFileOfAContainerNamesNobodyElse has a program in two containers, equal as if both containers had the same
// image. One container has a debug file with another name for a function. Whichever program is named first, the debug
// file is used only for the program in the same container.
func TestDebugFileOfAContainerNamesNobodyElse(t *testing.T) {
	program, debugDir := separate(t, "-Wl,--build-id=sha1"), t.TempDir()
	renamed := filepath.Join(t.TempDir(), "renamed")
	run(t, "", "objcopy", "--redefine-sym", "inner=forged", "--strip-debug",
		writeFile(t, program.debug, t.TempDir(), debugName), renamed)
	for _, forgedFirst := range []bool{true, false} {
		roots := []string{t.TempDir(), t.TempDir(), t.TempDir()}
		forger := 0
		if !forgedFirst {
			forger = 1
		}
		for i, root := range roots {
			if i == forger {
				writeFile(t, readFile(t, renamed), root, debugDir, program.buildIDPath())
			}
		}
		objects := make([]*Object, len(roots))
		for i, root := range roots {
			objects[i] = object(t, uint32(i+1), program.path)
			objects[i].Root, objects[i].Source = root, objects[0]
		}
		objects[0].Source = nil
		s := New(Options{DebugDirs: []string{debugDir}})
		for i, o := range objects {
			got := s.Frames(o, program.inner, false)[0].Function
			if forged := got == "forged"; forged && i != forger {
				t.Errorf("forged first %v: container %d has the name of another's debug file", forgedFirst, i)
			} else if i == 0 && i == forger && !forged {
				t.Errorf("container %d is named %s, not by its own debug file", i, got)
			}
		}
	}
}

// TestDebugFileOfAnotherUser: a user who cannot write a program cannot name its functions.
func TestDebugFileOfAnotherUser(t *testing.T) {
	need.OtherUsers(t)
	const user, other = 1234, 1235
	for _, c := range []struct {
		program, debug int
		found          bool
	}{{0, 0, true}, {0, user, false}, {user, user, true}, {user, 0, true}, {user, other, false}} {
		program, root, debugDir := separate(t, "-Wl,--build-id=sha1"), t.TempDir(), t.TempDir()
		path := writeFile(t, program.debug, root, debugDir, program.buildIDPath())
		for name, uid := range map[string]int{program.path: c.program, path: c.debug} {
			if err := os.Chown(name, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
		o := object(t, 1, program.path)
		o.Root = root
		s := New(Options{DebugDirs: []string{debugDir}})
		s.Frames(o, program.inner, false)
		if status, _ := s.Status(o); (status.DebugFile == path) != c.found {
			t.Errorf("program of user %d, debug file of %d: found %q", c.program, c.debug, status.DebugFile)
		}
	}
}

// TestCopyWithoutDebugFile: a copy of a program without a build ID, in a place without its debug file, does not get the
// names of the original program.
func TestCopyWithoutDebugFile(t *testing.T) {
	program := separate(t, "-Wl,--build-id=none")
	writeFile(t, program.debug, filepath.Dir(program.path), debugName)
	copied := object(t, 1, writeFile(t, readFile(t, program.path), t.TempDir(), "copy"))
	original := object(t, 2, program.path)
	original.Source = copied
	s := New(Options{DebugDirs: []string{t.TempDir()}})
	if got := s.Frames(copied, program.inner, false)[0]; got.Kind != Unknown {
		t.Fatalf("the copy has a name: %+v", got)
	}
	if got := s.Frames(original, program.inner, false)[0]; got.Function != "inner" {
		t.Errorf("the original: %+v", got)
	}
	if status, _ := s.Status(original); status.Reason != Named {
		t.Errorf("status of the original: %+v", status)
	}
}
