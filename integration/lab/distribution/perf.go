package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headwater/headwater/integration/testkit/walks"
)

// recordPerf samples a process with perf, which copies registers and 64 KiB of stack at each sample and unwinds them
// later by call frame information.
func recordPerf(pid, rate int, duration time.Duration) ([]stack, error) {
	dir, err := os.MkdirTemp("", "distribution")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "perf.data")
	record := exec.Command("perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-m", "64M", "-e", "cpu-clock:u", "-c",
		fmt.Sprint(int(time.Second)/rate),
		"--call-graph", "dwarf,65528", "-p", fmt.Sprint(pid), "-o", data, "--", "sleep", fmt.Sprint(duration.Seconds()))
	if out, err := record.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", record, err, out)
	}
	script := exec.Command("perf", "script", "-i", data, "--no-inline", "--ns", "-F", "comm,tid,time,ip,sym,dso")
	var errs bytes.Buffer
	script.Stderr = &errs
	out, err := script.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", script, err, errs.String())
	}
	return parseScript(out)
}

// parseScript parses the output of perf script: a line with command, thread and time, a line for each frame, leaf
// first, and an empty line.
func parseScript(text []byte) (stacks []stack, err error) {
	segments := walks.Segments{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	var s stack
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "":
			if len(s.frames) > 0 {
				stacks = append(stacks, s)
			}
			s = stack{}
		case s.time == 0:
			if s.time, err = parseTime(line); err != nil {
				return nil, err
			}
		default:
			f, err := parseFrame(segments, line)
			if err != nil {
				return nil, err
			}
			s.frames = append(s.frames, f)
		}
	}
	if len(s.frames) > 0 {
		stacks = append(stacks, s)
	}
	return stacks, lines.Err()
}

// parseTime reads a line such as "name of 16 bytes 123 45.678901234:".
func parseTime(line string) (uint64, error) {
	words := strings.Fields(line)
	seconds, ns, _ := strings.Cut(strings.TrimSuffix(words[len(words)-1], ":"), ".")
	s, err := strconv.ParseUint(seconds, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("perf script: time in %q: %w", line, err)
	}
	n, err := strconv.ParseUint((ns + "000000000")[:9], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("perf script: time in %q: %w", line, err)
	}
	return s*1e9 + n, nil
}

// parseFrame parses a line such as "11c5 water::Mill<double>::run (/path/of the/file)". The address is in the file; for
// a caller it is the address of the call, not of the instruction after it.
func parseFrame(segments walks.Segments, line string) (f frame, err error) {
	address, rest, _ := strings.Cut(line, " ")
	at, err := strconv.ParseUint(address, 16, 64)
	if err != nil {
		return f, fmt.Errorf("perf script: address in %q: %w", line, err)
	}
	if open := strings.LastIndex(rest, " ("); open >= 0 {
		rest = rest[open+1:]
	}
	file := strings.TrimSuffix(strings.TrimPrefix(rest, "("), ")")
	if file == "[vdso]" {
		return frame{walks.VDSO, at}, nil
	}
	return frame{filepath.Base(file), segments.Vaddr(file, at)}, nil
}
