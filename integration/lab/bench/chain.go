package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// framesOfC is the number of frames in a C program below its own calls: main, __libc_start_call_main, __libc_start_main
// and _start in glibc 2.34 and later.
const framesOfC = 4

// withoutFramePointers are the compiler flags of the workloads: optimised as distributions do, without frame pointers,
// and with a frame for each call.
var withoutFramePointers = []string{"-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"}

// chainLeaf and chainMain are the two ends of a chain program. Its arguments are the milliseconds of CPU to burn (at
// least, and less than), and the factor by which it lives longer; or an x, followed by the number of passes over some
// memory. Without arguments it does not end.
const (
	chainLeaf = `#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define OWN __attribute__((noinline, noclone)) static

static volatile unsigned long sink;
static volatile unsigned long cells[16384]; /* 128 KiB, more than a first-level cache has */
static long long end, loops;

OWN long long used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

OWN unsigned long f0(unsigned long x)
{
	if (loops) {
		while (loops--)
			for (int i = 0; i < 64; i++)
				sink = x += cells[(x + i * 257) % 16384]++;
		return x;
	}
	do
		for (int i = 0; i < 5000; i++)
			sink = x = x * 1664525 + 1013904223;
	while (!end || used() < end);
	return x;
}
`
	chainMain = `int main(int argc, char **argv)
{
	double least = argc > 1 ? atof(argv[1]) : 0, most = argc > 2 ? atof(argv[2]) : least;
	double burn = 1e6 * (least + (most - least) * (getpid() %% 101) / 101);
	double sleep = argc > 3 ? (atof(argv[3]) - 1) * burn : 0;

	if (argc > 1 && argv[1][0] == 'x')
		loops = atoll(argv[1] + 1);
	else if (argc > 1)
		end = used() + burn;
	int x = f%d(argc) == 1;
	nanosleep(&(struct timespec){ .tv_nsec = sleep }, NULL);
	return x;
}
`
)

// chainSource returns a C program that burns CPU in its leaf with the given total number of frames. All functions
// differ, and so do the sizes of their stack frames: this is how real programs look to an unwinder's tables and to
// caches.
func chainSource(frames int) string {
	var c strings.Builder
	if frames <= framesOfC { // no room for the C library: the program is one function
		return "__asm__(\".globl _start\\n_start:\\n.cfi_startproc\\n.cfi_undefined rip\\n" +
			"1: add $1, %rax\\njmp 1b\\n.cfi_endproc\\n\");\n"
	}
	c.WriteString(chainLeaf)
	calls := frames - framesOfC
	for i := 1; i < calls; i++ {
		fmt.Fprintf(&c, "OWN unsigned long f%d(unsigned long x) { volatile char room[%d]; room[0] = x; "+
			"return f%d(x + %d) + room[0]; }\n", i, 16+i*40%200, i-1, i)
	}
	fmt.Fprintf(&c, chainMain, calls-1)
	return c.String()
}

// buildChain compiles a chain program and returns its path.
func buildChain(dir string, frames int) (string, error) {
	name := chainName(frames)
	source := filepath.Join(dir, name+".c")
	if err := os.WriteFile(source, []byte(chainSource(frames)), 0o644); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	arguments := append([]string{"-o", path, source}, withoutFramePointers...)
	if frames <= framesOfC {
		arguments = append(arguments, "-nostdlib", "-static")
	}
	if out, err := exec.Command("gcc", arguments...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc %s: %w\n%s", source, err, out)
	}
	return path, nil
}

// buildPythonChain writes a Python program with a number of functions on its stack, and returns its path. From Python
// 3.11 on, its native stack does not depend on the number.
func buildPythonChain(dir string, frames int) (string, error) {
	var c strings.Builder
	c.WriteString("#!/usr/bin/python3\ndef f0(x):\n    while True:\n        x = (x * 31 + 7) % 65521\n")
	for i := 1; i < frames; i++ {
		fmt.Fprintf(&c, "def f%d(x):\n    return f%d(x) + %d\n", i, i-1, i)
	}
	fmt.Fprintf(&c, "f%d(1)\n", frames-1)
	path := filepath.Join(dir, chainName(frames)+".py")
	return path, os.WriteFile(path, []byte(c.String()), 0o755)
}

// chainName is also the name of the process.
func chainName(frames int) string { return fmt.Sprintf("hwchain%d", frames) }

// burners are processes that burn CPU, one per CPU.
type burners []*exec.Cmd

// lowestPriority yields to all other processes.
const lowestPriority = 19

// startBurners starts a program on each CPU, with the given nice value.
func startBurners(path string, nice int) (burners, error) {
	var b burners
	for cpu := range runtime.NumCPU() {
		cmd := exec.Command(path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
		if err := cmd.Start(); err != nil {
			b.stopBurners()
			return nil, err
		}
		b = append(b, cmd)
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(cmd.Process.Pid, &set); err != nil {
			b.stopBurners()
			return nil, fmt.Errorf("pin %s to CPU %d: %w", path, cpu, err)
		}
		renice(cmd.Process.Pid, nice)
	}
	return b, nil
}

// renice changes the priority of a process that leads a session: of the process within its session, and of the session
// if sessions are scheduled as groups, see sched(7). Without the privilege, or without groups, other processes get more
// of the CPU; there is no other effect.
func renice(pid, nice int) {
	_ = unix.Setpriority(unix.PRIO_PROCESS, pid, nice)
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), fmt.Append(nil, nice), 0)
}

// cpuSeconds returns the CPU time that the processes have used.
func (b burners) cpuSeconds() float64 {
	sum := 0.0
	for _, cmd := range b {
		if t, err := cpuTime(cmd.Process.Pid); err == nil {
			sum += t.Seconds()
		}
	}
	return sum
}

func (b burners) stopBurners() {
	for _, cmd := range b {
		cmd.Process.Kill()
		cmd.Wait()
	}
}
