package ebpf

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// threadProgram has two threads with their own names, each in another function, and prints their IDs.
const threadProgram = `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile unsigned long sink;
static void begin(const char *name)
{
	pthread_setname_np(pthread_self(), name);
	printf("%s %d\n", name, gettid());
	fflush(stdout);
}
__attribute__((noinline)) void spin_reader(void) { for (;;) sink++; }
__attribute__((noinline)) void spin_writer(void) { for (;;) sink--; }
static void *reader(void *unused) { begin("reader"); spin_reader(); return unused; }
static void *writer(void *unused) { begin("writer"); spin_writer(); return unused; }
int main(void)
{
	pthread_t t;
	alarm(600);
	pthread_create(&t, 0, reader, 0);
	pthread_create(&t, 0, writer, 0);
	for (;;)
		pause();
}
`

// TestThreadLabels compares the labels of samples with the threads' own output: a function that only one thread runs
// has its name and its ID.
func TestThreadLabels(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), "threads")
	gcc := exec.Command("gcc", "-O1", "-pthread", "-x", "c", "-o", program, "-")
	gcc.Stdin = strings.NewReader(threadProgram)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o := Options{}
	o.Labels, o.SampleRate = []string{"thread_name", "thread_id"}, 249
	cmd := exec.Command(program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pid := testkit.Run(t, cmd)
	said := map[string]int{}
	for lines := bufio.NewReader(out); len(said) < 2; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var name string
		var id int
		if _, err := fmt.Sscan(line, &name, &id); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		said[name] = id
	}

	s := start(t, only(o, pid))
	defer s.Close()
	seen := map[string]bool{}
	for len(seen) < len(said) {
		for _, p := range collect(t, s, pid, 50) {
			for _, sample := range p.Pprof.Sample {
				i := slices.IndexFunc(sample.Location, func(l *profile.Location) bool {
					return strings.HasPrefix(l.Line[0].Function.Name, "spin_")
				})
				if i < 0 {
					continue
				}
				want := strings.TrimPrefix(sample.Location[i].Line[0].Function.Name, "spin_")
				name, id := sample.Label["thread_name"], sample.Label["thread_id"]
				if !slices.Equal(name, []string{want}) || !slices.Equal(id, []string{strconv.Itoa(said[want])}) {
					t.Fatalf("a sample of %s, thread %d, has the labels %q and %q", want, said[want], name, id)
				}
				seen[want] = true
			}
		}
	}
}
