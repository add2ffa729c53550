package tools

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestGrowthByLine: page faults attribute what C, Python and Java programs grow by to the lines that allocate it, as
// much to each as malloc, tracemalloc and the Java VM count themselves.
func TestGrowthByLine(t *testing.T) {
	t.Parallel()
	need.Tools(t, "gcc", "python3", "java", "javac")
	script, err := filepath.Abs("testdata/lines.py")
	require.NoError(t, err)
	for _, program := range []struct {
		file    string
		command []string
	}{
		{"lines.c", []string{compiled(t, "lines", "gcc", "-O1", "-g", "testdata/lines.c")}},
		{"lines.py", []string{"/usr/bin/python3", script}},
		// A collector that never collects: all other collectors copy the retained objects.
		{"Lines.java", []string{"java", "-XX:+UnlockExperimentalVMOptions", "-XX:+UseEpsilonGC", "-Xms8m", "-Xmx512m",
			"-XX:EpsilonMinHeapExpand=1m", "-XX:NativeMemoryTracking=summary", "-XX:+UnlockDiagnosticVMOptions",
			"-XX:+PrintNMTStatistics", "-cp", compiledJava(t, "testdata/Lines.java"), "Lines"}},
	} {
		t.Run(program.file, func(t *testing.T) {
			t.Parallel()
			checkGrowthByLine(t, program.file, program.command)
		})
	}
}

// committedHeap is what a Java VM says at its end that its heap takes.
var committedHeap = regexp.MustCompile(`Java Heap \(reserved=\d+(?:KB)?, committed=(\d+)(KB)?\)`)

func checkGrowthByLine(t testing.TB, file string, command []string) {
	folder, stdout, stderr, code := record(t, append([]string{"-e", "page-faults", "-c", "16", "--"}, command...)...)
	require.Equal(t, 0, code, stderr)
	p := readProfile(t, folder, "headwater.pb.gz")
	lines, sum := 0, 0.0
	for text := range strings.Lines(stdout) {
		var line int64
		var want float64
		if n, _ := fmt.Sscan(text, &line, &want); n != 2 {
			continue
		}
		lines++
		got := bytesOfLine(p, file, line)
		sum += got
		within(t, fmt.Sprintf("%s:%d", file, line), got, want)
	}
	require.Equal(t, 2, lines, stdout)
	if match := committedHeap.FindStringSubmatch(stdout); match != nil {
		heap, err := strconv.ParseFloat(match[1], 64)
		require.NoError(t, err)
		if match[2] != "" {
			heap *= 1024
		}
		within(t, "Java's heap", sum, heap)
	} else {
		require.NotEqual(t, "Lines.java", file, stdout)
	}
}

// within fails unless bytes are those that are wanted, to within 15 %.
func within(t testing.TB, what string, got, want float64) {
	t.Logf("%s: %.1f MiB, want %.1f", what, got/(1<<20), want/(1<<20))
	if got < 0.85*want || got > 1.15*want {
		t.Errorf("%s has %.0f bytes, want %.0f", what, got, want)
	}
}

// bytesOfLine adds up the bytes of samples with a line of a file in their stack.
func bytesOfLine(p *profile.Profile, file string, number int64) (sum float64) {
	for _, s := range p.Sample {
		if hasLine(s, file, number) {
			sum += float64(s.Value[len(s.Value)-1])
		}
	}
	return sum
}

func hasLine(s *profile.Sample, file string, number int64) bool {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if filepath.Base(line.Function.Filename) == file && line.Line == number {
				return true
			}
		}
	}
	return false
}
