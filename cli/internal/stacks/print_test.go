package stacks

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func seconds(s float64) *float64 { return &s }

func sample() *Report {
	wait := []Frame{
		{Function: "futex_do_wait", Kind: Kernel},
		{Function: "lock", Kind: Native, Module: "/lib/libc.so.6", Address: "0x10", File: "/src/lock.c", Line: 7,
			Inlined: true},
		{Kind: Native, Module: "/usr/bin/app", Address: "0x1234"},
	}
	return &Report{PID: 7, Command: "app\x1b[31m --x", Container: strings.Repeat("3f2a", 16), Threads: []Thread{
		{TID: 7, Name: "app", State: "running", CPU: 3, Whole: true, Frames: []Frame{
			{Function: "Svc.sort", Kind: Interpreted, Module: "[java 17]", File: "Svc.java", Line: 4},
			{Function: "main", Kind: Native, Module: "/usr/bin/app", Address: "0x99"},
			{Kind: JIT, Address: "0x7f00"},
		}},
		{TID: 8, Name: "pool-1", State: "sleeping", Wait: "lock", OffSeconds: seconds(0.004), Whole: true, Frames: wait},
		{TID: 9, Name: "pool-2", State: "sleeping", Wait: "lock", OffSeconds: seconds(12.4), Whole: true, Frames: wait},
		{TID: 10, Name: "io", State: "sleeping", Reason: "the thread ran during each of 12 reads of its stack"},
	}}
}

func TestText(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sample().WriteText(&b, false))
	require.Equal(t, `Process 7: app?[31m --x   (container 3f2a3f2a3f2a, 4 threads)
Thread 7 "app" (running, cpu 3)
    Svc.sort (Svc.java:4)
    main (app+0x99)
    [unknown] 0x7f00
  [whole]
Thread 8 "pool-1" (sleeping: lock, less than 10 ms)
    futex_do_wait (kernel)
    lock (lock.c:7) [inlined]
    app+0x1234
  [whole]
Thread 9 "pool-2" (sleeping: lock, 12 s)
    futex_do_wait (kernel)
    lock (lock.c:7) [inlined]
    app+0x1234
  [whole]
Thread 10 "io" (sleeping)
  [not whole: the thread ran during each of 12 reads of its stack]
`, b.String())
}

func TestGroups(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sample().WriteText(&b, true))
	text := b.String()
	require.Contains(t, text, `2 threads 8 "pool-1", 9 "pool-2" (sleeping: lock, less than 10 ms to 12 s)`)
	require.Equal(t, 1, strings.Count(text, "lock.c:7"))
	require.Less(t, strings.Index(text, "2 threads"), strings.Index(text, "Thread 7 "), "the largest group is first")
}

func TestDuration(t *testing.T) {
	for s, want := range map[float64]string{
		0: "less than 10 ms", 0.25: "250 ms", 1.9: "1 s", 119: "119 s", 600: "10 min", 36000: "10 h", 864000: "10 days",
	} {
		require.Equal(t, want, duration(s))
	}
}

func TestResolve(t *testing.T) {
	pid, tid, err := Resolve(strconv.Itoa(os.Getpid()))
	require.NoError(t, err)
	require.Equal(t, [2]uint32{uint32(os.Getpid()), 0}, [2]uint32{pid, tid})
	entries, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, entry := range entries {
		pid, tid, err := Resolve(entry.Name())
		require.NoError(t, err)
		require.Equal(t, uint32(os.Getpid()), pid)
		require.True(t, tid == 0 || strconv.Itoa(int(tid)) == entry.Name())
	}
	for text, want := range map[string]string{
		"": "is no process or thread ID", "x": "is no process or thread ID", "0": "is no process or thread ID",
		"-3": "is no process or thread ID", "4294967296": "is no process or thread ID",
		"4194999": "there is no process or thread 4194999",
	} {
		_, _, err := Resolve(text)
		require.ErrorContains(t, err, want)
	}
}
