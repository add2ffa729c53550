package containers

import (
	"crypto/rand"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// box says what a container is made of.
type box struct {
	id     string // 64 hexadecimal digits
	cgroup string // its path below CgroupRoot
	image  string // the folder of its root file system, which it cannot write
	layer  string // a folder that overlayfs lays over the image's folder mount, as Docker lays its layers; "" for none
	mount  string
	args   []string
	config func(map[string]any) // if not nil, changes the OCI configuration
}

// container is a running container.
type container struct {
	box
	*rig.Process     // its runtime; without one, the container's first process
	host         int // the PID of its first process on this host
}

// newContainerID returns an ID as runtimes make them.
func newContainerID() string {
	id := make([]byte, 32)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// runcTrouble says why runc runs no container on this machine; "" if it does.
var runcTrouble = sync.OnceValue(func() string {
	if os.Getenv("HEADWATER_RUNTIME") == "none" {
		return "HEADWATER_RUNTIME=none"
	}
	dir, err := os.MkdirTemp("", "headwater-runc-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	program, err := exec.LookPath("true")
	if err != nil {
		return err.Error()
	}
	b := box{id: newContainerID(), cgroup: "/try", image: filepath.Join(dir, "image"), mount: "/mnt",
		layer: filepath.Join(dir, "layer"), args: []string{program}}
	err = errors.Join(makeImage(b.image, []string{"/mnt"}, program), os.Mkdir(b.layer, 0o755), b.bundle(dir))
	if err != nil {
		return err.Error()
	}
	out, err := exec.Command("runc", "--root", filepath.Join(dir, "state"), "run", "--bundle", dir, b.id).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("runc run: %v: %s", err, out)
	}
	return ""
})

// startContainer runs a box with runc. Where runc does not run, the box has a cgroup,
// namespaces and a root folder of its own all the same.
func startContainer(t testing.TB, b box) *container {
	t.Helper()
	need.Root(t)
	t.Cleanup(func() { rig.RemoveCgroups(t) })
	if runcTrouble() != "" {
		return startBare(t, b)
	}
	dir := t.TempDir()
	if err := b.bundle(dir); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	c := &container{box: b, Process: rig.Start(t, exec.Command("runc", "--root", state, "run", "--bundle", dir, b.id))}
	t.Cleanup(func() { // else only runc would be killed
		out, err := exec.Command("runc", "--root", state, "delete", "--force", b.id).CombinedOutput()
		if err != nil && !c.Ended() {
			t.Errorf("runc delete: %v\n%s", err, out)
		}
	})
	testkit.Eventually(t, "runc has started the container", func() bool {
		if c.Ended() {
			t.Fatalf("runc has ended: %v\n%s", c.Err, c.Output.Tail(20))
		}
		var s struct {
			Status string
			PID    int
		}
		out, err := exec.Command("runc", "--root", state, "state", b.id).Output()
		if err != nil || json.Unmarshal(out, &s) != nil || s.Status != "running" {
			return false
		}
		c.host = s.PID
		return true
	})

	return c
}

// startBare is startContainer without a runtime.
func startBare(t testing.TB, b box) *container {
	t.Helper()
	enter := rig.PrivateMounts + fmt.Sprintf(`mount -t proc proc "$0/proc" &&
		mount -t overlay -o %s overlay "$0%s" &&
		exec unshare --cgroup chroot "$0" "$@"`, b.overlay(), b.mount)
	cmd := exec.Command("sh", append([]string{"-c", enter, b.image}, b.args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
	}
	c := &container{box: b, Process: rig.StartInCgroup(t, b.cgroup, cmd)}
	c.host = c.PID()
	testkit.Eventually(t, "the container's program has begun", func() bool {
		if c.Ended() {
			t.Fatalf("the container has ended: %v\n%s", c.Err, c.Output.Tail(20))
		}
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.host))
		return err == nil && strings.HasSuffix(exe, b.args[0])
	})

	return c
}

// bundle writes config.json of an OCI bundle to a folder: namespaces of its own,
// an ordinary user, no privileges.
func (b box) bundle(dir string) error {
	mounts := []any{map[string]any{"destination": "/proc", "type": "proc", "source": "proc"}}
	if b.layer != "" {
		mounts = append(mounts, map[string]any{"destination": b.mount, "type": "overlay", "source": "overlay",
			"options": []string{b.overlay()}})
	}
	var namespaces []any
	for _, kind := range []string{"pid", "mount", "cgroup", "ipc", "uts", "network"} {
		namespaces = append(namespaces, map[string]any{"type": kind})
	}
	config := map[string]any{
		"ociVersion": "1.0.2",
		"hostname":   b.id[:12],
		"root":       map[string]any{"path": b.image, "readonly": true},
		"process": map[string]any{
			"args": b.args, "cwd": "/", "env": []string{"PATH=/usr/bin:/bin"},
			"user": map[string]any{"uid": 1000, "gid": 1000}, "noNewPrivileges": true,
		},
		"mounts": mounts,
		"linux":  map[string]any{"cgroupsPath": rig.CgroupRoot() + b.cgroup, "namespaces": namespaces},
	}
	if b.config != nil {
		b.config(config)
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644)
}

// overlay returns the options that lay the box's layer over the image's folder.
func (b box) overlay() string { return "lowerdir=" + b.layer + ":" + filepath.Join(b.image, b.mount) }

// makeImage makes a root file system of empty folders, programs of this host and the
// libraries that they need.
func makeImage(image string, folders []string, programs ...string) error {
	for _, folder := range append(folders, "/proc", "/dev", "/sys") {
		if err := os.MkdirAll(filepath.Join(image, folder), 0o755); err != nil {
			return err
		}
	}
	library := regexp.MustCompile(`(/\S+) \(0x`)
	for _, program := range programs {
		files := []string{program}
		dynamic, err := isDynamic(program)
		if err != nil {
			return err
		}
		var listed []byte
		if dynamic { // ldd fails for static programs
			if listed, err = exec.Command("ldd", program).Output(); err != nil {
				return fmt.Errorf("ldd %s: %w", program, err)
			}
		}
		for _, match := range library.FindAllSubmatch(listed, -1) {
			files = append(files, string(match[1]))
		}
		for _, file := range slices.Compact(files) {
			if err := copyInto(image, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// isDynamic says whether a program is started by a dynamic linker.
func isDynamic(program string) (bool, error) {
	file, err := elf.Open(program)
	if err != nil {
		return false, fmt.Errorf("%s: %w", program, err)
	}
	defer file.Close()
	return slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), nil
}

// copyInto copies a file of this host to the same path below root.
func copyInto(root, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	copied := filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
		return err
	}
	return os.WriteFile(copied, content, 0o755)
}
