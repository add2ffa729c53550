package procfs

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit/need"
)

// opened reports whether a file was opened for more than its path while do ran.
func opened(t *testing.T, name string, do func()) bool {
	t.Helper()
	watcher, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watcher)
	if _, err := unix.InotifyAddWatch(watcher, name, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	do()
	n, err := unix.Read(watcher, make([]byte, 4096))
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	return n > 0
}

// makeFiles makes one file of each kind in a root directory, and returns it with
// their names.
func makeFiles(t *testing.T) (root string, special []string) {
	t.Helper()
	root = t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(at("regular"), []byte("content"), 0o644))
	must(unix.Mkfifo(at("fifo"), 0o644))
	must(os.Mkdir(at("directory"), 0o755))
	socket, err := net.Listen("unix", at("socket"))
	must(err)
	t.Cleanup(func() { socket.Close() })
	special = []string{"fifo", "directory", "socket"}
	if os.Getuid() == 0 {
		must(unix.Mknod(at("character"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5)))) // zero
		must(unix.Mknod(at("block"), unix.S_IFBLK|0o644, int(unix.Mkdev(7, 200))))   // an unused loop device
		special = append(special, "character", "block")
	} else if os.Getenv("REQUIRE_KERNEL") == "1" {
		t.Fatal("REQUIRE_KERNEL=1 but device files need root")
	}
	return root, special
}

// Opening a pipe wakes or blocks its other end, and opening a device may rewind a tape or start a watchdog: their type
// is checked first.
func TestOpenLeavesSpecialFilesAlone(t *testing.T) {
	root, special := makeFiles(t)
	for _, name := range special {
		if err := os.Symlink("/"+name, filepath.Join(root, "to-"+name)); err != nil {
			t.Fatal(err)
		}
		for _, open := range map[string]func() (File, error){
			"below":   func() (File, error) { return Open(root, "/"+name) },
			"link":    func() (File, error) { return Open(root, "/to-"+name) },
			"owned":   func() (File, error) { return OpenOwned(root, "/"+name, uint32(os.Getuid())) },
			"host":    func() (File, error) { return Open("", filepath.Join(root, name)) },
			"regular": func() (File, error) { return OpenRegular(filepath.Join(root, name)) },
		} {
			if opened(t, filepath.Join(root, name), func() {
				f, err := open()
				if !errors.Is(err, ErrNotRegular) {
					t.Errorf("%s: %v, want ErrNotRegular", name, err)
				}
				if err == nil {
					f.Close()
				}
			}) {
				t.Errorf("%s was opened", name)
			}
		}
	}
	if !opened(t, filepath.Join(root, "regular"), func() {
		f, err := Open(root, "/regular")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		content := make([]byte, 16)
		if n, _ := f.ReadAt(content, 0); string(content[:n]) != "content" {
			t.Errorf("read %q", content[:n])
		}
		if f.Name() != root+"/regular" {
			t.Errorf("name %q", f.Name())
		}
		if _, err := f.(*os.File).Write([]byte("x")); err == nil {
			t.Error("could be written")
		}
	}) {
		t.Error("the watch does not see that a file is opened")
	}
}

// Files that the kernel makes up may block, or a read may use up their data.
func TestOpenRefusesFilesOfTheKernel(t *testing.T) {
	root := t.TempDir()
	for _, target := range []string{"/proc/self/mem", "/proc/kmsg", "/sys/kernel/notes"} {
		if _, err := os.Stat(target); err != nil {
			continue
		}
		if f, err := Open("/", target); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v, %v, want ErrNotRegular", target, f, err)
		}
		link := filepath.Join(root, filepath.Base(target))
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if f, err := Open("", link); !errors.Is(err, ErrNotRegular) {
			t.Errorf("link to %s: %v, %v, want ErrNotRegular", target, f, err)
		}
	}
}

func TestOpenStaysInRoot(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	for dir, content := range map[string]string{root: "inside", outside: "outside"} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"absolute": "/file", "dots": "../../../../../../file", "chain": "/absolute", "long": "chain",
		"escape": outside + "/file", "escapes": "/escape", "loop": "loop", "magic": "/proc/self/exe",
		"fd": "/proc/self/fd/0",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for link, want := range map[string]string{
		"absolute": "", "dots": "", "chain": "", "long": "",
		"escape": "no such file", "escapes": "no such file", "loop": "too many levels", "magic": "no such file",
		"fd": "no such file",
	} {
		f, err := Open(root, "/"+link)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", link, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", link, err)
			continue
		}
		content := make([]byte, 16)
		if n, _ := f.ReadAt(content, 0); string(content[:n]) != "inside" {
			t.Errorf("%s: %q", link, content[:n])
		}
		f.Close()
	}
	// With a /proc in the root, links of it that are no names are not followed.
	for _, magic := range []string{"/proc/self/exe", "/proc/self/root/bin/sh", "/proc/self/cwd/open.go"} {
		if f, err := Open("/", magic); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%s: %v, %v, want ELOOP", magic, f, err)
		}
	}
}

func TestOpenOwned(t *testing.T) {
	need.Root(t)
	const user, other = 12345, 54321
	root := t.TempDir()
	for name, owner := range map[string]int{"root": 0, "user": user, "other": other} {
		file := filepath.Join(root, name)
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(file, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"root", "user"} {
		f, err := OpenOwned(root, "/"+name, user)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f.Close()
	}
	if opened(t, filepath.Join(root, "other"), func() {
		if f, err := OpenOwned(root, "/other", user); !errors.Is(err, ErrNotOwned) {
			t.Errorf("another user's file: %v, %v", f, err)
		}
	}) {
		t.Error("another user's file was opened")
	}
}
