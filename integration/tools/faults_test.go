package tools

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// growProgram compiles testdata/grow.c.
func growProgram(t testing.TB) string {
	return compiled(t, "hwgrow", "gcc", "-O1", "-g", "testdata/grow.c")
}

// printedFaults reads the minor and major page faults that a program has printed for each of its functions.
func printedFaults(t testing.TB, text string) map[string][2]float64 {
	t.Helper()
	found := map[string][2]float64{}
	for _, line := range strings.Split(text, "\n") {
		var name string
		var minor, major float64
		if n, _ := fmt.Sscanf(line, "%s %f %f", &name, &minor, &major); n == 3 {
			found[name] = [2]float64{minor, major}
		}
	}
	require.NotEmpty(t, found, "nothing printed: %s", text)
	return found
}

// valueOf adds up the values of a type, of the samples that have a function.
func valueOf(p *profile.Profile, function, valueType string) (sum float64) {
	value := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == valueType })
	for _, s := range p.Sample {
		if hasFunction(s, function) {
			sum += float64(s.Value[value])
		}
	}
	return sum
}

func hasFunction(s *profile.Sample, name string) bool {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function.Name == name {
				return true
			}
		}
	}
	return false
}

// TestPageFaults: the memory that functions of a C program and of a Python program have touched first is theirs in the
// profile, as much of it as getrusage says.
func TestPageFaults(t *testing.T) {
	t.Parallel()
	need.Tools(t, "python3")
	for name, command := range map[string][]string{
		"c": {growProgram(t)}, "python": {"/usr/bin/python3", "testdata/grow.py"},
	} {
		t.Run(name, func(t *testing.T) {
			command := command
			command[len(command)-1], _ = filepath.Abs(command[len(command)-1])
			t.Parallel()
			checkGrowth(t, command)
		})
	}
}

func checkGrowth(t testing.TB, command []string) {
	folder, stdout, stderr, code := record(t, append([]string{"-e", "page-faults", "-c", "16", "--"}, command...)...)
	require.Equal(t, 0, code)
	require.Regexp(t, `samples in .* s, one for each 16 faults, 1\d\d\.\d MiB in all`, stderr)
	p := readProfile(t, folder, "headwater.pb.gz")
	require.Equal(t, []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "faults", Unit: "count"},
		{Type: "space", Unit: "bytes"}}, p.SampleType)
	require.EqualValues(t, 16, p.Period)
	for function, faults := range printedFaults(t, stdout) {
		got := valueOf(p, function, "faults")
		t.Logf("%s: %.0f page faults, getrusage says %.0f", function, got, faults[0])
		if math.Abs(got-faults[0]) > faults[0]/5 {
			t.Errorf("%s has %.0f page faults, but getrusage says %.0f", function, got, faults[0])
		}
		require.Equal(t, got*float64(os.Getpagesize()), valueOf(p, function, "space"))
	}
	top := run(t, "go", "tool", "pprof", "-top", "-cum", filepath.Join(folder, "headwater.pb.gz"))
	require.Contains(t, top, "Type: space")
	require.Regexp(t, `\d+(\.\d+)?MB\s+[\d.]+%\s+growing\n`, top)
}

// TestMajorFaults: each page that a program waits for is one sample, in the function that reads it.
func TestMajorFaults(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("testdata", "disk") // folders for temporary files may be in memory
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	file, err := filepath.Abs(filepath.Join(folder, "file"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("x"), 1<<20), 0o600))
	folder, stdout, stderr, code := record(t, "-e", "major-faults", "--", growProgram(t), file)
	major := printedFaults(t, stdout)["reading"][1]
	require.NotZero(t, major, "the working tree is on no disk")
	require.Equal(t, 0, code)
	require.Regexp(t, `samples in .* s, one for each fault,`, stderr)
	p := readProfile(t, folder, "headwater.pb.gz")
	require.Equal(t, []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "faults", Unit: "count"}}, p.SampleType)
	require.Equal(t, major, valueOf(p, "reading", "faults"), "getrusage counts so many")
}

// TestFaultFlags: flags that do not go together are refused, and a process without page faults makes no file.
func TestFaultFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--period is for page-faults":       {"-c", "16"},
		"format perf is for CPU time":       {"-e", "page-faults", "-f", "perf"},
		"--timestamps is for CPU time":      {"-e", "major-faults", "--timestamps"},
		"use -e page-faults for all faults": {"-e", "minor-faults"},
		"--period must be at most":          {"-e", "page-faults", "-c", "99999999999"},
		"had no sampled page-faults":        {"-e", "page-faults", "-c", "1000000000"},
	} {
		folder, _, stderr, code := record(t, append(args, "-d", "1", "-p", fmt.Sprint(os.Getpid()))...)
		require.NotZero(t, code, args)
		require.Contains(t, stderr, want, args)
		require.NoFileExists(t, filepath.Join(folder, "headwater.pb.gz"))
	}
}
