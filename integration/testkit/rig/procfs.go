package rig

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// KernelSymbols returns the names of the kernel's functions.
func KernelSymbols(t testing.TB) map[string]bool {
	t.Helper()
	file, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	names := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 3 && strings.Contains("tTwW", fields[1]) {
			names[fields[2]] = true
		}
	}
	return names
}

// Children returns the PIDs of the living children of a process.
func Children(t testing.TB, pid int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		child, rest, _ := strings.Cut(string(text), " (")
		fields := strings.Fields(rest[strings.LastIndex(rest, ")")+1:])
		if len(fields) > 1 && fields[1] == fmt.Sprint(pid) {
			number, err := strconv.Atoi(child)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			found = append(found, number)
		}
	}
	return found
}

// CPUTime returns the CPU time that a process has used so far, in ticks of 10 ms. A thread is
// named PID/task/TID.
func CPUTime(t testing.TB, process string) time.Duration {
	t.Helper()
	text := ReadFile(t, "/proc/"+process+"/stat")
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	ticks := int64(0)
	for _, field := range fields[11:13] { // utime and stime, proc(5) fields 14 and 15
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatalf("/proc/%s/stat: %v", process, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
