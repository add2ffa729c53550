package procfs

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/fuse"
	"github.com/headwater/headwater/integration/testkit/need"
)

// mountOverlay mounts an overlay with a file, all below the working directory and in memory, because the directories of
// an overlay cannot be on another overlay. With sayReady, a script prints its directory and waits for the end of its
// input.
const (
	mountOverlay = `mount -t tmpfs tmpfs . && cd "$PWD" && mkdir lower upper work merged && echo text >lower/file &&
		mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged`
	sayReady = `pwd -P && read line`
)

// TestLocal checks a file of a disk, and files of overlays that were mounted by this host's administrator or by a user,
// as processes in several namespaces have them.
func TestLocal(t *testing.T) {
	need.Root(t)
	need.Tools(t, "nsenter", "unshare", "mount")
	tests := []struct {
		name, script string
		want         bool
	}{
		{"of a disk", `unshare -Urm sh -c "mkdir merged && echo text >merged/file && $READY"`, true},
		{"of a container", `unshare -m sh -c "$MOUNT && $READY"`, true},
		{"of a user", `unshare -Urm sh -c "$MOUNT && $READY"`, false},
		{"of a user, with root's rights in it", `unshare -Urm sh -c "$MOUNT && exec unshare -m sh -c '$READY'"`, false},
		{"of a user, of which only the user namespace is another",
			`unshare -m sh -c "$MOUNT && exec unshare -Ur sh -c '$READY'"`, true},
		{"of a container in a user namespace", `sh -c "$MOUNT && exec unshare -Urm sh -c '$READY'"`, true},
		{"of a container in a user namespace, mounted by itself",
			`unshare -m sh -c "$MOUNT && exec unshare -Urm sh -c '$READY'"`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
			pid, folder := startReady(t, dir, test.script)
			root := rootIn(t, pid)
			f, err := openBelow(root, filepath.Join(folder, "merged/file"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			opened, err := Open(root, filepath.Join(folder, "merged/file"))
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			if _, local := opened.(*os.File); local != test.want {
				t.Errorf("opened as local: %v", local)
			}
			if got := Local(root, f); got != test.want {
				t.Errorf("local: %v", got)
			}
			// A file that a user has mounted is not local for other processes either.
			if !test.want && Local("", f) {
				t.Error("local for us")
			}
		})
	}
}

// rootIn returns the root of a process as seen below a /proc whose initial process is this one: tests may run in a
// namespace of their own.
func rootIn(t *testing.T, pid int) string {
	t.Helper()
	proc := t.TempDir()
	for name, to := range map[string]int{"1": os.Getpid(), "2": pid} {
		if err := os.Symlink("/proc/"+strconv.Itoa(to), filepath.Join(proc, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(proc, "2/root")
}

// TestOverlayOverFUSE: an overlay of a container, mounted by this host's administrator, is not local if one of its
// layers is not, such as a layer of an image that is fetched when it is read.
func TestOverlayOverFUSE(t *testing.T) {
	need.Root(t)
	need.Tools(t, "nsenter", "unshare", "mount")
	dir := t.TempDir()
	fuse.Mount(t, dir, map[string][]byte{"file": []byte("text")})
	for name, layers := range map[string]string{"absolute": "$PWD/lower:$PWD/fuse", "relative": "lower:fuse"} {
		t.Run(name, func(t *testing.T) {
			pid, folder := startReady(t, dir, `unshare -m sh -c "mkdir -p lower merged && echo x >lower/near &&
				mount -t overlay -o lowerdir=`+layers+` overlay merged && $READY"`)
			for _, file := range []string{"file", "near"} {
				f, err := Open(rootIn(t, pid), filepath.Join(folder, "merged", file))
				if err != nil {
					t.Fatal(err)
				}
				if _, local := f.(*os.File); local {
					t.Errorf("%s is local", file)
				}
				f.Close()
			}
		})
	}
}

// startReady starts a script in a directory, for the duration of the test, and returns its process and the script's
// name for the directory when that is ready. The script's root is the root of the mount namespace, because a process
// with another root may not make a user namespace.
func startReady(t *testing.T, dir, script string) (pid int, folder string) {
	t.Helper()
	cmd := exec.Command("nsenter", "--mount=/proc/self/ns/mnt", "--wd="+dir, "sh", "-c", "exec "+script)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "MOUNT="+mountOverlay, "READY="+sayReady)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return cmd.Process.Pid, strings.TrimSuffix(line, "\n")
}

// TestLocalInChroot: files are local in a root directory that is no mount point, which no list of mounts has.
func TestLocalInChroot(t *testing.T) {
	need.Root(t)
	const inside = "HEADWATER_TEST_IN_CHROOT"
	if os.Getenv(inside) != "" {
		f, err := Open("", "/file")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, local := f.(*os.File); !local {
			t.Error("a file is not local")
		}
		if entries, err := ReadLocalDir("", "/folder"); err != nil || len(entries) != 1 {
			t.Errorf("%d files in a folder, %v", len(entries), err)
		}
		return
	}
	dir := t.TempDir()
	testkit.CopyProgram(t, os.Args[0], filepath.Join(dir, "test"))
	proc := filepath.Join(dir, "proc")
	for _, folder := range []string{proc, filepath.Join(dir, "folder")} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"file", "folder/file"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("proc", proc, "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(proc, unix.MNT_DETACH) })
	cmd := exec.Command("/test", "-test.run=^TestLocalInChroot$")
	cmd.Env, cmd.Dir = append(os.Environ(), inside+"=1"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
