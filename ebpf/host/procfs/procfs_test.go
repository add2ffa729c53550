package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
)

const maps = `55d0c0a00000-55d0c0a21000 r--p 00000000 fe:01 1234                       /usr/bin/with space
55d0c0a21000-55d0c0a30000 r-xp 00021000 fe:01 1234                       /usr/bin/with space
55d0c1c00000-55d0c1c21000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000001000 r-xp 00000000 00:01 77                         /memfd:jit (deleted)
7f0000001000-7f0000002000 rwxp 00000000 00:00 0 
7f0000002000-7f0000003000 r-xs 00001000 103:100005 18446744073709551615  /tmp/new\012line (deleted)
7f0000003000-7f0000004000 rw-s 00000000 00:01 1024                       /dev/zero (deleted)
7f0000004000-7f0000005000 ---p 00000000 00:00 0                          //anon
7f0000005000-7f0000006000 r-xp 00000000 fe:01 9                          /opt/a (deleted) b
7ffe00000000-7ffe00002000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`

var parsedMaps = []Mapping{
	{Start: 0x55d0c0a00000, End: 0x55d0c0a21000, Perms: Read, Dev: unix.Mkdev(0xfe, 1), Inode: 1234,
		Path: "/usr/bin/with space"},
	{Start: 0x55d0c0a21000, End: 0x55d0c0a30000, Offset: 0x21000, Perms: Read | Exec, Dev: unix.Mkdev(0xfe, 1),
		Inode: 1234, Path: "/usr/bin/with space"},
	{Start: 0x55d0c1c00000, End: 0x55d0c1c21000, Perms: Read | Write, Path: "[heap]"},
	{Start: 0x7f0000000000, End: 0x7f0000001000, Perms: Read | Exec, Dev: unix.Mkdev(0, 1), Inode: 77,
		Path: "/memfd:jit", Deleted: true},
	{Start: 0x7f0000001000, End: 0x7f0000002000, Perms: Read | Write | Exec},
	{Start: 0x7f0000002000, End: 0x7f0000003000, Offset: 0x1000, Perms: Read | Exec | Shared,
		Dev: unix.Mkdev(0x103, 0x100005), Inode: 1<<64 - 1, Path: "/tmp/new\nline", Deleted: true},
	{Start: 0x7f0000003000, End: 0x7f0000004000, Perms: Read | Write | Shared, Dev: unix.Mkdev(0, 1), Inode: 1024,
		Path: "/dev/zero", Deleted: true},
	{Start: 0x7f0000004000, End: 0x7f0000005000, Path: "//anon"},
	{Start: 0x7f0000005000, End: 0x7f0000006000, Perms: Read | Exec, Dev: unix.Mkdev(0xfe, 1), Inode: 9,
		Path: "/opt/a (deleted) b"},
	{Start: 0x7ffe00000000, End: 0x7ffe00002000, Perms: Read | Exec, Path: VDSO},
	{Start: 0xffffffffff600000, End: 0xffffffffff601000, Perms: Exec, Path: "[vsyscall]"},
}

// fixture makes a proc file system with process 42.
func fixture(t testing.TB, files map[string]string) FS {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, "42", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return FS{Root: root}
}

func TestMappings(t *testing.T) {
	f := fixture(t, map[string]string{"maps": maps})
	all, err := f.Mappings(42)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(parsedMaps) {
		t.Fatalf("%d mappings, want %d", len(all), len(parsedMaps))
	}
	var wantExec []Mapping
	for i, want := range parsedMaps {
		if all[i] != want {
			t.Errorf("mapping %d:\n got %+v\nwant %+v", i, all[i], want)
		}
		if want.Perms&Exec != 0 {
			wantExec = append(wantExec, want)
		}
	}
	executable, err := f.ExecMappings(42)
	if err != nil || !reflect.DeepEqual(executable, wantExec) {
		t.Errorf("ExecMappings: %+v, %v", executable, err)
	}
}

func TestHasFile(t *testing.T) {
	want := map[string]bool{"/usr/bin/with space": true, "/memfd:jit": true, "/tmp/new\nline": true, "/dev/zero": true,
		"/opt/a (deleted) b": true}
	for _, m := range parsedMaps {
		if m.HasFile() != want[m.Path] {
			t.Errorf("%q: HasFile() = %v", m.Path, m.HasFile())
		}
		if m.Memfd() != (m.Path == "/memfd:jit") {
			t.Errorf("%q: Memfd() = %v", m.Path, m.Memfd())
		}
	}
}

func TestMalformedMaps(t *testing.T) {
	for _, line := range []string{
		"\n", "x", "1000", "1000-2000", "2000-1000 r-xp 0 0:0 0\n", "1000-2000 r-x 0 0:0 0\n",
		"1000-2000 rrrr 0 0:0 0\n",
		"1000-2000 r-xp 0 0:0\n", "1000-2000 r-xp 0 0-0 0\n", "10000000000000000-2 r-xp 0 0:0 0\n",
		"1000-2000 r-xp 0 100000000:0 0\n", "1000-2000 r-xp 0 0:0 18446744073709551616\n",
		"1000-2000 r-xp 0 0:0 0 " + strings.Repeat("x", maxLine) + "\n",
	} {
		f := fixture(t, map[string]string{"maps": maps + line})
		if _, err := f.Mappings(42); !errors.Is(err, errMalformed) || !strings.Contains(err.Error(), "/42/maps") {
			t.Errorf("%.40q: error %v", line, err)
		}
	}
}

// The running kernel's own format, compared with the process's own knowledge of itself.
func TestOwnMappings(t *testing.T) {
	pid := uint32(os.Getpid())
	mappings, err := Default.Mappings(pid)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := Default.ExePath(pid)
	if err != nil {
		t.Fatal(err)
	}
	text := uint64(reflect.ValueOf(TestOwnMappings).Pointer())
	found := false
	for _, m := range mappings {
		if !m.Contains(text) {
			continue
		}
		found = true
		var stat unix.Stat_t
		if err := unix.Stat(m.Path, &stat); err != nil {
			t.Fatal(err)
		}
		if m.Path != exe || m.Perms&Exec == 0 || m.Inode != stat.Ino || !m.HasFile() || m.Deleted {
			t.Errorf("mapping of this test: %+v, executable %s, inode %d", m, exe, stat.Ino)
		}
		if os.Geteuid() == 0 {
			checkMapFile(t, Default.MapFilePath(pid, m.Start, m.End), stat.Ino)
		}
		checkMapFile(t, Default.RootPath(pid, m.Path), stat.Ino)
	}
	if !found {
		t.Error("no mapping holds this test")
	}
}

func checkMapFile(t *testing.T, path string, inode uint64) {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil || stat.Ino != inode {
		t.Errorf("%s: inode %d, %v; want %d", path, stat.Ino, err, inode)
	}
}

// A deleted executable with a line feed in its name, as the kernel shows it.
func TestDeletedProgramWithLineFeed(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a\nb (c) d")
	testkit.CopyProgram(t, sleep, path)
	cmd := exec.Command(path, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	var mappings []Mapping
	what := fmt.Sprintf("a mapping of %s is marked as deleted", path)
	testkit.Eventually(t, what, func() bool { // it may have started, without its mappings yet
		if mappings, err = Default.ExecMappings(uint32(cmd.Process.Pid)); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(mappings, func(m Mapping) bool { return m.Path == path && m.Deleted })
	})
}

func TestSmallFiles(t *testing.T) {
	f := fixture(t, map[string]string{
		"comm":       "a b\n",
		"cgroup":     "1:name=systemd:/docker/abc\n0::/system.slice/x.service\n",
		"task/42/x":  "",
		"task/100/x": "",
		"task/7/x":   "",
	})
	if comm, err := f.Comm(42); comm != "a b" || err != nil {
		t.Errorf("Comm: %q, %v", comm, err)
	}
	lines, err := f.Cgroup(42)
	if want := []string{"1:name=systemd:/docker/abc", "0::/system.slice/x.service"}; !reflect.DeepEqual(lines, want) ||
		err != nil {
		t.Errorf("Cgroup: %q, %v", lines, err)
	}
	if threads, err := f.Threads(42); !reflect.DeepEqual(threads, []uint32{7, 42, 100}) || err != nil {
		t.Errorf("Threads: %v, %v", threads, err)
	}
	if pids, err := f.PIDs(); !reflect.DeepEqual(pids, []uint32{42}) || err != nil {
		t.Errorf("PIDs: %v, %v", pids, err)
	}
	if got, want := f.MapFilePath(42, 0x1000, 0xabc000), f.Root+"/42/map_files/1000-abc000"; got != want {
		t.Errorf("MapFilePath: %s, want %s", got, want)
	}
	if got := Default.RootPath(42, "../../etc/x"); got != "/proc/42/root/etc/x" {
		t.Errorf("RootPath: %s", got)
	}
	for name, err := range map[string]error{
		"Comm":     second(f.Comm(43)),
		"Cgroup":   second(f.Cgroup(43)),
		"Threads":  second(f.Threads(43)),
		"Mappings": second(f.Mappings(43)),
		"ExePath":  second(f.ExePath(43)),
	} {
		if !Gone(err) {
			t.Errorf("%s of a missing process: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzMaps(f *testing.F) {
	f.Add([]byte(maps))
	f.Add([]byte("0-1 r--p 0 0:0 0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testkit.Cheap(t, len(data))()
		mappings, err := parseMaps(bytes.NewReader(data), func(Perms, []byte) bool { return true })
		if err != nil {
			return
		}
		if lines := bytes.Count(data, []byte{'\n'}); len(mappings) > lines+1 {
			t.Errorf("%d mappings in %d lines", len(mappings), lines)
		}
		for _, m := range mappings {
			if m.End < m.Start || len(m.Perms.String()) != 4 {
				t.Errorf("mapping %+v", m)
			}
		}
	})
}

func manyMaps(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		addr := uint64(0x7f0000000000 + i*0x2000)
		b.WriteString(strconv.FormatUint(addr, 16) + "-" + strconv.FormatUint(addr+0x1000, 16) +
			" r-xp 00000000 fe:01 1234                       /usr/lib/libx.so\n")
	}
	return b.Bytes()
}

func TestMapsAllocateNothingPerLine(t *testing.T) {
	data := manyMaps(100_000)
	none := func(Perms, []byte) bool { return false }
	if n := testing.AllocsPerRun(2, func() { parseMaps(bytes.NewReader(data), none) }); n > 10 {
		t.Errorf("%v allocations for lines that are not kept", n)
	}
	all := func(Perms, []byte) bool { return true }
	if n := testing.AllocsPerRun(2, func() { parseMaps(bytes.NewReader(data), all) }); n > 100 {
		t.Errorf("%v allocations for 100,000 lines", n)
	}
}

func BenchmarkMaps100k(b *testing.B) {
	data := manyMaps(100_000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		parseMaps(bytes.NewReader(data), func(p Perms, _ []byte) bool { return p&Exec != 0 })
	}
}

func TestIdentity(t *testing.T) {
	inner, uid, err := Default.Identity(uint32(os.Getpid()))
	if err != nil || uid != uint32(os.Geteuid()) || inner != uint32(os.Getpid()) {
		t.Errorf("PID %d, user %d, %v", inner, uid, err)
	}
}
