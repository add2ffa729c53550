package ebpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// textMover is a library whose move_text replaces the program's text, or pages of it, by memory with the same bytes.
const textMover = `
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void die(const char *what) { perror(what); _exit(1); }
static void move(char *low, size_t size, const char *how) {
	const int rwx = PROT_READ | PROT_WRITE | PROT_EXEC;
	char *copy = mmap(0, size, rwx, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, low, size);
	if (!strcmp(how, "mremap")) {
		if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, low) == MAP_FAILED)
			die("mremap");
		return;
	}
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	if (!strcmp(how, "memfd")) {
		fd = memfd_create("text", 0);
		if (fd < 0 || ftruncate(fd, size))
			die("memfd_create");
		flags = MAP_SHARED;
	} else if (!strcmp(how, "shared")) {
		flags = MAP_SHARED | MAP_ANONYMOUS;
	}
	if (mmap(low, size, rwx, flags | MAP_FIXED, fd, 0) == MAP_FAILED)
		die("mmap");
	if (!strcmp(how, "slow"))
		usleep(300000);
	madvise(low, size, MADV_HUGEPAGE);
	memcpy(low, copy, size);
	mprotect(low, size, PROT_READ | PROT_EXEC);
	munmap(copy, size);
}
void move_text(const char *how) {
	char exe[4096], line[8192], perms[8];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	exe[n] = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long low, high;
	do {
		if (!fgets(line, sizeof line, maps))
			die("no text");
		sscanf(line, "%lx-%lx %7s", &low, &high, perms);
	} while (perms[2] != 'x' || !strstr(line, exe));
	fclose(maps);
	if (!strcmp(how, "inner")) { // whole huge pages only
		low += 4096;
		high -= 4096;
	}
	move((char *)low, high - low, how);
}
`

// movedProgram has text of some pages, and burns in functions of it; it moves it at once, or when it gets SIGUSR1.
const movedProgram = `
#include <signal.h>
#include <string.h>
void move_text(const char *how);
static volatile unsigned long sink;
static volatile sig_atomic_t now;
static void asked(int s) { now = s; }
#define PAD(n) __attribute__((noinline, used)) void pad##n(void) { \
	__asm__ volatile(".rept 1500\n nop\n mov $" #n ",%%eax\n.endr" ::: "eax"); }
PAD(1) PAD(2)
__attribute__((noinline)) void burn(void) { for (int i = 0; i < 20000; i++) sink += i * sink; }
__attribute__((noinline)) void third(void) { burn(); sink++; }
__attribute__((noinline)) void second(void) { third(); sink++; }
__attribute__((noinline)) void first(void) { second(); sink++; }
PAD(3) PAD(4)
int main(int argc, char **argv) {
	signal(SIGUSR1, asked);
	now = argc > 2;
	for (;;) {
		first();
		if (now) {
			now = 0;
			move_text(argv[1]);
		}
	}
}
`

// movedInShort are the parts of TestMovedText that make test has.
var movedInShort = []string{"pie private meanwhile", "pie mremap before", "one segment memfd meanwhile"}

// TestMovedText: text that a program has moved to its own memory still counts as its file's, whole and named, whether
// it is moved before or during profiling. Memory with other bytes at that place does not.
func TestMovedText(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mover := filepath.Join(dir, "libmover.so")
	run(t, "gcc", "-O2", "-shared", "-fPIC", "-o", mover, write("mover.c", textMover))
	source := write("moved.c", movedProgram)
	builds := map[string][]string{
		"pie": {}, "fixed address": {"-no-pie"}, "one segment": {"-Wl,-z,noseparate-code"},
	}
	for _, c := range []struct{ build, how string }{
		{"pie", "private"}, {"pie", "mremap"}, {"pie", "memfd"}, {"pie", "shared"}, {"pie", "inner"}, {"pie", "slow"},
		{"fixed address", "private"}, {"one segment", "private"}, {"one segment", "memfd"},
	} {
		for _, when := range []string{"before", "meanwhile"} {
			t.Run(c.build+" "+c.how+" "+when, func(t *testing.T) {
				if !slices.Contains(movedInShort, c.build+" "+c.how+" "+when) {
					testkit.Nightly(t, "others move text to memory of each kind, and at each time")
				}
				t.Parallel()
				program := filepath.Join(t.TempDir(), "moved")
				args := append([]string{"-O2", "-fomit-frame-pointer", "-o", program, source, mover, "-Wl,-rpath," + dir},
					builds[c.build]...)
				run(t, "gcc", args...)
				cmd := exec.Command(program, c.how)
				if when == "before" {
					cmd.Args = append(cmd.Args, "now")
				}
				pid := testkit.Run(t, cmd)
				if when == "before" {
					awaitMoved(t, pid, program, c.how)
				}
				s := start(t, only(identityOptions(), pid))
				defer s.Close()
				settle(t, s, pid)
				if when == "meanwhile" {
					if err := unix.Kill(int(pid), unix.SIGUSR1); err != nil {
						t.Fatal(err)
					}
					awaitMoved(t, pid, program, c.how)
					settle(t, s, pid)
				}
				profiles := collectOf(t, s, 100, pid)
				checkWhole(t, c.how, profiles, pid)
				chain, inBurn := "burn third second first main", 0
				for _, names := range stacksOf(profiles, pid) {
					stack := strings.Join(names, " ")
					if strings.Contains(stack, "burn") {
						inBurn++
					}
					if strings.Contains(stack, "burn") != strings.Contains(stack, chain) && !endsUnready(names) ||
						slices.Contains(names, "[unknown]") {
						t.Errorf("a stack is not as before: %s", stack)
					}
				}
				if inBurn == 0 {
					t.Error("no stack has the functions of the program")
				}
			})
		}
	}
}

// awaitMoved waits until the text of a program is no longer a mapping of its file, in whole or in part.
func awaitMoved(t *testing.T, pid uint32, program, how string) {
	t.Helper()
	testkit.Eventually(t, "the text is moved", func() bool {
		maps, err := os.ReadFile("/proc/" + itoa(pid) + "/maps")
		if err != nil {
			t.Fatal(err)
		}
		text, memory := 0, 0
		for line := range strings.Lines(string(maps)) {
			fields := strings.Fields(line)
			switch {
			case len(fields) < 2 || fields[1][2] != 'x':
			case strings.Contains(line, program):
				text++
			case len(fields) < 6 || strings.HasPrefix(fields[5], "/memfd:") || strings.HasPrefix(fields[5], "/dev/zero"):
				memory++
			}
		}
		return memory == 1 && (text == 0 || how == "inner" && text == 2)
	})
}
