package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/cli/internal/summary"
	"github.com/headwater/headwater/ebpf/host/numa"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/flame/kind"
)

// TestRecordRefuses: invalid flags are refused before the recording starts.
func TestRecordRefuses(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{nil, "choose what to record: -a the whole host, -p PID a process, -- COMMAND a program"},
		{[]string{"-a", "-p", "1"}, "exclude each other"},
		{[]string{"-p", "1", "--", "true"}, "exclude each other"},
		{[]string{"-a", "--push", "server:4040"}, "--push: "},
		{[]string{"-a", "--push-label", "env=test"}, "--push-label needs --push URL"},
		{[]string{"-a", "--push", "http://server:4040", "--push-label", "a b=c"}, "--push-label: "},
		{[]string{"-a", "--push", "http://server:4040", "--push-label", "shop"}, `"shop"`},
		{[]string{"-a", "-e", "lock"}, "use -e off-cpu, which includes waits for locks"},
		{[]string{"-a", "-e", "off-cpu", "-c", "7"}, "off-cpu is sampled --freq times a second"},
		{[]string{"-a", "-e", "wall", "--timestamps"}, "--timestamps is for CPU time, not for wall"},
		{[]string{"-a", "-e", "alloc"}, "-e page-faults for the first touches of memory"},
		{[]string{"-a", "-e", "cycles"}, "use -e cpu, which samples CPU time by a timer"},
		{[]string{"-a", "--event", "sched_switch"}, `"sched_switch" is unknown: want cpu, off-cpu, wall,`},
		{[]string{"-a", "-e", "uprobe:malloc"}, "want uprobe:PATH:FUNCTION[+OFFSET]"},
		{[]string{"-a", "-e", "uprobe:/no/such/file:malloc"}, "malloc: open /no/such/file: no such file"},
		{[]string{"-a", "-e", "sched:sched_switch", "--timestamps"}, "--timestamps is for CPU time"},
		{[]string{"-a", "-K", "-U"}, "--kernel and --user exclude each other"},
		{[]string{"-a", "-F", "0"}, "--freq must be between 1 and 10000 samples per second, got 0"},
		{[]string{"-a", "-F", "10001"}, "--freq must be between 1 and 10000 samples per second, got 10001"},
		{[]string{"-a", "-d", "-1"}, "--duration must not be negative, got -1s"},
		{[]string{"-a", "-d", "soon"}, `want a duration such as 10, 90s or 1m30s, got "soon"`},
		{[]string{"-a", "--inline=maybe"}, "want yes or no"},
		{[]string{"-a", "--demangle=some"}, `--demangle: invalid demangle mode "some", valid values are: none,`},
		{[]string{"-C", "3-1"}, `--cpu: "3-1" is no list of CPUs such as 0-3,5`},
		{[]string{"-C", "0-99999999"}, `is no list of CPUs`},
		{[]string{"-C", "0,65535"}, "there is no CPU 65535, or it is not online"},
		{[]string{"-a", "-o", "file.flames"}, `the name "file.flames" has no known suffix: choose a --format, or`},
		{[]string{"-a", "-f", "flames"}, `unknown format "flames", the formats are: pprof, html,`},
		{[]string{"-a", "-o", "none/file.html"}, "none/file.html cannot be written: no such file or directory"},
		{[]string{"-a", "-o", "."}, "has no known suffix"},
		{[]string{"-a", "-f", "html", "-o", "."}, ". is a folder"},
		{[]string{"-a", "--json", "-o", "-"}, "--json and --output - exclude each other"},
		{[]string{"-d", "1", "--", "no-such-command"}, `"no-such-command": executable file not found`},
	}
	for _, test := range tests {
		_, stderr, code := call(t, append([]string{"record"}, test.args...)...)
		require.Equal(t, 2, code, "%q: %s", test.args, stderr)
		require.Contains(t, stderr, test.want)
		left, err := os.ReadDir(".") // the folder of the call
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// TestRecordFormat: the format comes from the name of the file, or the name from the format.
func TestRecordFormat(t *testing.T) {
	tests := []struct{ output, format, wantOutput, wantFormat string }{
		{"", "", "headwater.pb.gz", "pprof"},
		{"", "html", "headwater.html", "html"},
		{"a.html", "", "a.html", "html"},
		{"a.html", "folded", "a.html", "folded"},
		{"-", "", "-", "pprof"},
		{"-", "folded", "-", "folded"},
	}
	for _, test := range tests {
		r := recording{flags: &recordFlags{output: "headwater.pb.gz", format: test.format}}
		if test.output != "" {
			r.flags.output, r.named = test.output, true
		}
		require.NoError(t, r.chooseFormat())
		require.Equal(t, test.wantOutput, r.flags.output)
		require.Equal(t, test.wantFormat, r.format.Name)
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]uint32{"": nil, "0": {0}, "0-2,5": {0, 1, 2, 5}} {
		got, err := numa.ParseCPUs(list)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, list := range []string{",", "-", "1-", "-1", "a", "1,,2", "5000000000"} {
		_, err := numa.ParseCPUs(list)
		require.Error(t, err, list)
	}
}

// TestRecordLeavesFiles: a recording that is refused leaves the file that was there.
func TestRecordLeavesFiles(t *testing.T) {
	cmd := headwater(t, "record", "-p", "4294967295", "-o", "old.html")
	old := filepath.Join(cmd.Dir, "old.html")
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o644))
	_, stderr, code := result(t, cmd)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "there is no process 4294967295")
	text, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
}

// TestDroppedValues: if all values of a probe were too large, such as an int read as 64 bits, the error names the
// argument to write instead.
func TestDroppedValues(t *testing.T) {
	r := &recording{flags: &recordFlags{}}
	r.flags.event.kind = kind.PageFaults
	for _, test := range []struct {
		dropped uint64
		want    string
	}{{0, "lower --period"}, {1, "1 value was"}, {1200, "1,200 values were"}} {
		err := r.noSamples(&record.Recording{Dropped: test.dropped})
		require.ErrorContains(t, err, test.want)
		if test.dropped > 0 {
			require.ErrorContains(t, err, "value=arg2:int")
		}
	}
}

// TestFlood: where hits of a probe were lost, the summary and the error name a period for about a thousand samples a
// second: the next prime number.
func TestFlood(t *testing.T) {
	r := &recording{flags: &recordFlags{}}
	require.NoError(t, r.flags.event.Set("sched:sched_switch"))
	lost := func(samples, lost uint64, period int64, d time.Duration) *record.Recording {
		return &record.Recording{
			Kind: r.flags.event.kind, Samples: samples, Duration: d, Lost: map[string]uint64{sampler.LostToFullLogs: lost},
			Profile: &profile.Profile{PeriodType: &profile.ValueType{}, SampleType: []*profile.ValueType{{}}, Period: period},
		}
	}
	for want, recorded := range map[string]*record.Recording{
		"":                                         lost(3000, 0, 1, time.Second),
		"the buffers were full for a moment: ":     lost(1430, 5, 1, 3*time.Second),
		"-c 2 takes one hit of 2, which stands":    lost(1000, 1, 1, time.Second),
		"-c 1009 takes one hit of 1009, which ":    lost(1000, 2_999_000, 1, 3*time.Second),
		"-c 10007 takes one hit of 10007, which s": lost(100_000, 890_000, 101, 10*time.Second),
	} {
		text := summary.Flood(recorded)
		require.Contains(t, text, want)
		require.Equal(t, want == "", text == "")
	}
	none := lost(0, 5_000_000, 1, time.Second)
	none.Profile = nil
	require.ErrorContains(t, r.noSamples(none), "so no file was written: there were more hits than can be read: -c 5003 ")
	none.Kind = kind.CPU
	require.Empty(t, summary.Flood(none))
}
