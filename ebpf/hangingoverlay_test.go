package ebpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/fuse"
	"github.com/headwater/headwater/integration/testkit/need"
)

// mover is a program that is busy in near and, after it gets SIGUSR1, in far, which is so far away that its unwind rows
// are on another page. Far runs once before.
const mover = `
#include <signal.h>
#include <unistd.h>
static volatile sig_atomic_t moves;
static void move(int number) { moves = number; }
#define BURN(name, place) \
__attribute__((noinline, section(place))) unsigned long name(volatile unsigned long n) { \
	unsigned long sum = 0; \
	for (unsigned long i = 0; i < n; i++) \
		sum += i * n; \
	return sum; \
}
BURN(near_in_the_dark, ".text.near")
__asm__(".section .text.room, \"ax\"\n.skip 1 << 22\n.text");
BURN(far_in_the_dark, ".text.zfar")
int main(void) {
	signal(SIGUSR1, move);
	far_in_the_dark(10);
	if (write(1, "x", 1) != 1)
		return 1;
	while (!moves)
		near_in_the_dark(1000000);
	for (;;)
		far_in_the_dark(1000000);
}
`

// buildMover builds a static program.
func buildMover(t *testing.T, dir string) (path string) {
	t.Helper()
	need.Tools(t, "gcc")
	path = filepath.Join(dir, "mover")
	source := path + ".c"
	if err := os.WriteFile(source, []byte(mover), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("gcc", "-O1", "-static", "-o", path, source)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// TestHangingOverlay has a program in an overlay that its user has mounted, in a user namespace of their own, over a
// file system that stops answering before all of the program's rows are read. Other programs have their names in every
// profile.
func TestHangingOverlay(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "nsenter", "unshare", "mount")
	dir := t.TempDir()
	light := buildBurner(t, dir, "burn_in_the_light")
	program, err := os.ReadFile(buildMover(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	server := fuse.Mount(t, dir, map[string][]byte{"mover": program})
	for _, name := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	other := runBurner(t, light, "")
	// Run from the root of the mount namespace: below another root, no process may make a user namespace.
	pid := runBurner(t, "nsenter", "", "--mount=/proc/self/ns/mnt", "--wd="+dir, "unshare", "-Urm", "sh", "-c",
		"mount -t overlay -o lowerdir=fuse,upperdir=upper,workdir=work overlay merged && exec merged/mover")

	s := start(t, Options{})
	testkit.Eventually(t, fmt.Sprintf("process %d has names", pid), func() bool {
		return round(t, s, "near_in_the_dark")["near_in_the_dark"]
	})
	server.Hang(t)
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	checkRounds(t, s, other, "while the program moves on")
	testkit.Eventually(t, "the program, whose file was read when it could be, has names", func() bool {
		return round(t, s, "far_in_the_dark")["far_in_the_dark"]
	})
	within(t, "the end", func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
