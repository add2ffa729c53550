package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// workProgram builds testdata/work.cpp with the debug information that clang's profiles need.
func workProgram(t testing.TB) string {
	t.Helper()
	return compiled(t, "hwwork", "clang-19", "-x", "c++", "-O2", "-gline-tables-only", "-fdebug-info-for-profiling",
		"-fno-omit-frame-pointer", "testdata/work.cpp")
}

// run returns what a command prints.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", cmd, stderr.String())
	return string(out)
}

// ofWork are the functions of the work program, without those that do hardly anything.
var ofWork = regexp.MustCompile(`shop::(parse|check|price|store|reply|sortOrders)`)

// TestPprofTool: go tool pprof reads a recording, and headwater report shows the same.
func TestPprofTool(t *testing.T) {
	t.Parallel()
	folder, _, _, code := record(t, "-F", "997", "--", workProgram(t), "20000")
	require.Equal(t, 0, code)
	file := filepath.Join(folder, "headwater.pb.gz")
	shares := func(text string, line *regexp.Regexp) map[string]float64 {
		out := map[string]float64{}
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			share, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			out[m[2]] = share
		}
		require.Len(t, out, 6, text)
		return out
	}
	theirs := shares(run(t, "go", "tool", "pprof", "-top", file),
		regexp.MustCompile(`(?m)^ *\S+ +([\d.]+)%.* (`+ofWork.String()+`)`))
	ours := shares(run(t, rig.Binary(t), "report", file), regexp.MustCompile(`(?m)^ *([\d.]+) %.* (`+ofWork.String()+`)`))
	for name, share := range theirs {
		require.InDelta(t, share, ours[name], 0.06, name)
	}
}

// TestPerf: the functions that perf record finds with most samples have the same share in ours,
// within what sampling allows.
func TestPerf(t *testing.T) {
	t.Parallel()
	need.Tools(t, "perf")
	need.Root(t)
	program := workProgram(t)
	data := filepath.Join(t.TempDir(), "perf.data")
	if out, err := exec.Command("perf", "record", "-e", "cpu-clock:u", "-F", "997", "--call-graph", "dwarf,1024",
		"-o", data, "--", program, "40000").CombinedOutput(); err != nil {
		t.Fatalf("perf record: %v\n%s", err, out)
	}
	theirs, their := map[string]float64{}, 0.0
	for line := range strings.Lines(run(t, "perf", "script", "-i", data, "-F", "ip,sym", "-G")) {
		if m := ofWork.FindString(line); m != "" {
			theirs[m]++
			their++
		}
	}
	folder, _, _, code := record(t, "-U", "-F", "997", "--", program, "40000")
	require.Equal(t, 0, code)
	ours, our := map[string]float64{}, 0.0
	p := readProfile(t, folder, "headwater.pb.gz")
	for _, s := range p.Sample {
		if m := ofWork.FindString(s.Location[0].Line[0].Function.Name); m != "" {
			ours[m] += float64(s.Value[len(s.Value)-1] / p.Period)
			our += float64(s.Value[len(s.Value)-1] / p.Period)
		}
	}
	require.Greater(t, their, 100.0)
	require.Greater(t, our, 100.0)
	for name, n := range theirs {
		share := n / their
		sigma := math.Sqrt(share * (1 - share) * (1/their + 1/our))
		t.Logf("%-20s perf %5.1f %%, headwater %5.1f %%", name, 100*share, 100*ours[name]/our)
		require.InDelta(t, share, ours[name]/our, 5*sigma+0.01, name)
	}
}

// TestClang: clang reads a recording as a sample profile, and knows by it which branch is rare.
func TestClang(t *testing.T) {
	t.Parallel()
	need.Tools(t, "clang-19")
	folder, _, _, code := record(t, "-F", "1999", "-f", "autofdo", "--", workProgram(t), "20000")
	require.Equal(t, 0, code)
	file := filepath.Join(folder, "headwater.afdo")
	compile := func(more ...string) string {
		return run(t, "clang-19", append([]string{"-x", "c++", "-O2", "-gline-tables-only", "-Werror", "-S", "-emit-llvm",
			"-o", "-", "testdata/work.cpp"}, more...)...)
	}
	price := regexp.MustCompile(`define .*@_ZN4shop5priceEj\(.* !prof `)
	require.NotRegexp(t, price, compile())
	with := compile("-fprofile-sample-use=" + file)
	require.Regexp(t, price, with)
	require.Contains(t, with, "ProfileSummary")
}

// TestGoBuild: with a recording, the Go compiler inlines additional functions. In make nightly, go build compiles all
// packages of the program with the recording, including the Go runtime; in make test only the program's own.
func TestGoBuild(t *testing.T) {
	t.Parallel()
	const source = "../../ebpf/testdata/golang/pgo"
	decisions := func(profile string) string {
		out := filepath.Join(t.TempDir(), "program")
		args := []string{"tool", "compile", "-p", "main", "-m", "-pgoprofile=" + profile, "-o", out, source + "/main.go"}
		if testkit.IsNightly() {
			args = []string{"build", "-gcflags=-m", "-pgo=" + cmp.Or(profile, "off"), "-o", out, "./" + source}
		}
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, string(text))
		return string(text)
	}
	program := compiledGo(t, "hwpgo", "./"+source, "GOARCH="+runtime.GOARCH, "-pgo=off")
	folder, _, _, code := record(t, "-F", "997", "-d", "2", "-o", "default.pgo", "--", program)
	require.Equal(t, 0, code)
	const inlined = "inlining call to mix"
	require.NotContains(t, decisions(""), inlined)
	require.Contains(t, decisions(filepath.Join(folder, "default.pgo")), inlined)
}

// TestTrace: the events of a recording follow the Trace Event Format, and are within the recording.
func TestTrace(t *testing.T) {
	t.Parallel()
	folder, _, _, code := record(t, "-F", "499", "-o", "out.trace.json", "--", workProgram(t), "20000")
	require.Equal(t, 0, code)
	data, err := os.ReadFile(filepath.Join(folder, "out.trace.json"))
	require.NoError(t, err)
	var file struct{ TraceEvents []map[string]any }
	require.NoError(t, json.Unmarshal(data, &file))
	last, open := 0.0, 0
	named := map[string]bool{}
	for _, e := range file.TraceEvents {
		require.IsType(t, 0.0, e["pid"])
		require.IsType(t, 0.0, e["tid"])
		require.IsType(t, 0.0, e["ts"])
		switch e["ph"] {
		case "M":
			require.Contains(t, []any{"process_name", "thread_name"}, e["name"])
			continue
		case "B":
			require.IsType(t, "", e["name"])
			named[ofWork.FindString(fmt.Sprint(e["name"]))] = true
			open++
		default:
			require.Equal(t, "E", e["ph"])
			open--
		}
		require.GreaterOrEqual(t, e["ts"], last) // the program has one thread
		last = e["ts"].(float64)
	}
	require.Zero(t, open)
	require.Less(t, last, 120e6)
	require.True(t, named["shop::price"] && named["shop::sortOrders"], named)
}
