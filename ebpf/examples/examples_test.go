package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// work is a program with a function for each example.
const work = `
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) void compute(void) { for (volatile int i = 0; i < 1000000; i++); }
__attribute__((noinline)) void rest(void) { usleep(20000); }
__attribute__((noinline)) char *allocate(void) { char *p = malloc(1 << 20); memset(p, 1, 1 << 20); return p; }
void *busy(void *unused) { for (;;) { compute(); rest(); } return unused; }
int main(void) {
	pthread_t thread;
	pthread_create(&thread, 0, busy, 0);
	pthread_setname_np(thread, "computes");
	static char *used[32];
	for (int n = 0;; n = (n + 1) % 32) { free(used[n]); used[n] = allocate(); rest(); }
}
`

// TestExamples runs each example next to a program, and looks for the function that the program was written to show.
func TestExamples(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc", "gdb")
	dir := t.TempDir()
	program := filepath.Join(dir, "work")
	if err := os.WriteFile(program+".c", []byte(work), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O1", "-pthread", "-o", program, program+".c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pid := fmt.Sprint(testkit.Run(t, exec.Command(program)))
	file := filepath.Join(dir, "core")
	dump := exec.Command("gdb", "-batch", "-p", pid, "-ex", "generate-core-file "+file)
	if out, err := dump.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, test := range map[string]struct{ argument, want string }{
		"cpu":    {"", "user stacks complete\n"},
		"offcpu": {pid, "off-cpu of one: "},
		"heap":   {pid, "most in allocate\n"},
		"probe":  {"uprobe:" + program + ":rest", "most in rest\n"},
		"labels": {pid, "computes: "},
		"core":   {file, "  main\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Eventually(t, "the example prints "+test.want, func() bool {
				var out strings.Builder
				if err := examples[name](&out, test.argument); err != nil {
					t.Fatal(err)
				}
				return strings.Contains(out.String(), test.want)
			})
		})
	}
}
