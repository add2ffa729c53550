package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// writeProfile writes a profile of 30 ms in main and 10 ms in the C library, called by it.
func writeProfile(t *testing.T) (path string) {
	t.Helper()
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	p := &profile.Profile{SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 10e6, DurationNanos: 1e9}
	location := func(id uint64, file, name string) *profile.Location {
		m := &profile.Mapping{ID: id, File: file, Limit: 1 << 20}
		f := &profile.Function{ID: id, Name: name}
		l := &profile.Location{ID: id, Mapping: m, Address: id * 16, Line: []profile.Line{{Function: f}}}
		p.Mapping, p.Function, p.Location = append(p.Mapping, m), append(p.Function, f), append(p.Location, l)
		return l
	}
	run, write := location(1, "/bin/server", "main"), location(2, "/lib/libc.so.6", "write")
	p.Sample = []*profile.Sample{
		{Location: []*profile.Location{run}, Value: []int64{30e6}},
		{Location: []*profile.Location{write, run}, Value: []int64{10e6}},
	}
	path = filepath.Join(t.TempDir(), "p.pb.gz")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, p.Write(file))
	return path
}

func TestReport(t *testing.T) {
	path := writeProfile(t)
	tests := []struct {
		args []string
		want string
	}{
		{nil, `server: 0.04 s, 4 samples in 1.0 s
    self    total  function
  75.0 %  100.0 %  main  server
  25.0 %   25.0 %  write  libc.so.6
`},
		{[]string{"--top", "1"}, `server: 0.04 s, 4 samples in 1.0 s
    self    total  function
  75.0 %  100.0 %  main  server
and 1 more
`},
		{[]string{"--tree"}, `server: 0.04 s, 4 samples in 1.0 s
   total     self
 100.0 %   75.0 %  main
  25.0 %   25.0 %    write
`},
		{[]string{"--folded"}, "main 3\nmain;write 1\n"},
		{[]string{"--folded", "--focus", "^wri"}, "main;write 1\n"},
		{[]string{"--folded", "--ignore", "write"}, "main 3\n"},
	}
	for _, test := range tests {
		stdout, stderr, code := call(t, append([]string{"report", path}, test.args...)...)
		require.Equal(t, 0, code, stderr)
		require.Equal(t, test.want, stdout)
	}
}

// TestReportRefuses: a file that is not a profile is reported as such.
func TestReportRefuses(t *testing.T) {
	path := writeProfile(t)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no profile"), 0o644))
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"report"}, "accepts 1 argument, received 0"},
		{[]string{"report", path, path}, "accepts 1 argument, received 2"},
		{[]string{"report", "none"}, "open none: no such file or directory"},
		{[]string{"report", text}, text + " is not a profile in pprof's format"},
		{[]string{"report", os.DevNull}, "is empty"},
		{[]string{"report", "--top", "0", path}, "--top must be positive"},
		{[]string{"report", "--focus", "(", path}, "--focus: error parsing regexp"},
		{[]string{"report", "--focus", "nothing", path}, `no sample has a function that matches "nothing"`},
		{[]string{"report", "--ignore", "main", path}, "there are no samples"},
		{[]string{"script"}, "accepts 1 argument, received 0"},
		{[]string{"script", text}, text + " is not a profile in pprof's format"},
	}
	for _, test := range tests {
		_, stderr, code := call(t, test.args...)
		require.Equal(t, 2, code, "%q", test.args)
		require.Contains(t, stderr, test.want)
	}
}

func TestScript(t *testing.T) {
	stdout, stderr, code := call(t, "script", writeProfile(t))
	require.Equal(t, 0, code, stderr)
	require.Equal(t, 4, strings.Count(stdout, "cpu-clock:"))
	require.Contains(t, stdout, "\t              20 write (/lib/libc.so.6)\n\t              10 main (/bin/server)\n")
}
