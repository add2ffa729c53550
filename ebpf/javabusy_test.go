package ebpf

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// busyAgent has a thread of a Java VM that gives way to all other threads, and changes 2 GiB of mappings every two
// seconds: on busy CPUs it holds the lock of the VM's memory for some tenths of a second each time, and readers of that
// memory wait.
const busyAgent = `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE (2UL << 30)

static void *work(void *unused)
{
	char *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED || madvise(at, SIZE, MADV_NOHUGEPAGE))
		abort();
	for (unsigned long n = 0; n < SIZE; n += 4096) /* the page of zeros: this takes tables alone */
		(void)*(volatile char *)(at + n);
	if (setpriority(PRIO_PROCESS, syscall(SYS_gettid), 19))
		abort();
	for (;; sleep(2))
		if (mprotect(at, SIZE, PROT_NONE) || mprotect(at, SIZE, PROT_READ))
			abort();
	return unused;
}

int Agent_OnLoad(void *vm, char *options, void *reserved)
{
	pthread_t thread;
	(void)vm, (void)options, (void)reserved;
	return pthread_create(&thread, NULL, work, NULL);
}
`

// TestBusyJava: a Java VM whose memory cannot be read at times, because a thread that holds the lock of its memory
// waits for a CPU, still has its stacks and names.
func TestBusyJava(t *testing.T) {
	testkit.Nightly(t, "how many stacks are whole is judged where nothing else is busy. "+
		"TestJavaStacks checks the stacks of a VM whose memory can be read")
	classes := compileJava(t, "Deep")
	agent := compileC(t, t.TempDir(), "busy.so", busyAgent, "-shared", "-fPIC", "-pthread")
	for range runtime.NumCPU() {
		testkit.Spin(t)
	}
	retry.Run(t, func(t *retry.T) {
		java := startJava(t, "-agentpath:"+agent, "-XX:CompileCommand=quiet",
			"-XX:CompileCommand=dontinline,Deep.*", "-cp", classes, "Deep")
		var profiles []Profile
		var samples, complete, own, named uint64
		for begin := time.Now(); time.Since(begin) < 10*time.Second || samples < 200; {
			profiles = append(profiles, collect(t, java.session, java.pid, 50)...)
			samples, complete = of(profiles, java.pid)
		}
		for _, p := range profiles {
			for _, sample := range java.samples(p) {
				if isAgents(sample) { // its thread's share of the CPU does not matter
					continue
				}
				n := uint64(sample.Value[0] / p.Pprof.Period)
				own += n
				if slices.Contains(jitted(sample), "Deep.main") {
					named += n
				}
			}
		}
		if complete*10 < samples*6 || named*2 < own {
			t.Errorf("%d of %d stacks are whole, %d of %d have Deep.main", complete, samples, named, own)
		}
		t.Logf("%d of %d stacks are whole, %d of %d have Deep.main; %v", complete, samples, named, own,
			java.session.Stats().Errors)
	})
}

// isAgents reports whether a sample is of the thread of busyAgent.
func isAgents(s *profile.Sample) bool {
	return slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
		return l.Mapping != nil && strings.HasSuffix(l.Mapping.File, "/busy.so")
	})
}
