package export

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/pprof"
)

// maker makes a profile whose samples are 10 ms each.
type maker struct {
	*profile.Profile
	locations map[string]*profile.Location
}

func newMaker() *maker {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	return &maker{
		Profile: &profile.Profile{
			SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 10e6,
			TimeNanos: 1_700_000_000e9, DurationNanos: 2e9, Comments: []string{Recorded + "process 7 (server)"},
		},
		locations: map[string]*profile.Location{},
	}
}

// sample adds a sample that was taken count times. Locations, root first, are "file:function" or
// "file:function|inlined|inlined into that"; without a file they are no code.
func (m *maker) sample(count int64, locations ...string) *profile.Sample {
	s := &profile.Sample{Value: []int64{count * m.Period}}
	for i := len(locations) - 1; i >= 0; i-- {
		s.Location = append(s.Location, m.location(locations[i]))
	}
	m.Sample = append(m.Sample, s)
	return s
}

// thread1 sets the thread and the times of a sample.
func thread1(s *profile.Sample, pid, tid, name string, times ...int64) {
	s.Label = map[string][]string{"pid": {pid}, "thread_id": {tid}, "thread_name": {name}}
	if len(times) > 0 {
		s.NumLabel = map[string][]int64{pprof.Timestamp: times}
	}
}

func (m *maker) location(text string) *profile.Location {
	if l := m.locations[text]; l != nil {
		return l
	}
	file, names, _ := strings.Cut(text, ":")
	l := &profile.Location{ID: uint64(len(m.Location) + 1), Address: uint64(len(m.Location)+1) * 16}
	l.Mapping = m.mapping(file)
	for i, name := range strings.Split(names, "|") {
		if name == "" {
			continue
		}
		f := &profile.Function{ID: uint64(len(m.Function) + 1), Name: name, SystemName: "_Z" + name}
		f.StartLine = int64(10 * (i + 1))
		line := f.StartLine + 3
		if f.Filename = "server.c"; file == "" {
			f.Filename, f.StartLine, line, l.Address = "", 0, 0, 0
		}
		m.Function = append(m.Function, f)
		l.Line = append([]profile.Line{{Function: f, Line: line}}, l.Line...)
	}
	m.Location = append(m.Location, l)
	m.locations[text] = l
	return l
}

func (m *maker) mapping(file string) *profile.Mapping {
	for _, of := range m.Mapping {
		if of.File == file {
			return of
		}
	}
	of := &profile.Mapping{ID: uint64(len(m.Mapping) + 1), File: file, Start: 0, Limit: 1 << 20}
	m.Mapping = append(m.Mapping, of)
	return of
}

// server returns a profile of two threads.
func server(t testing.TB) *profile.Profile {
	t.Helper()
	m := newMaker()
	const begin = 1_700_000_000e9
	thread1(m.sample(3, ":server", "/bin/server:main", "/bin/server:work|step"), "7", "7", "server",
		begin, begin+10e6, begin+40e6)
	thread1(m.sample(1, ":server", "/bin/server:main", "/lib/libc.so.6:write", "[kernel.kallsyms]:do_syscall_64"),
		"7", "7", "server", begin+20e6)
	thread1(m.sample(2, ":server", "/bin/server:start", "/bin/server:"), "7", "8", "pool; 1", begin+10e6, begin+30e6)
	require.NoError(t, m.CheckValid())
	return m.Profile
}

// withoutLabels returns a profile as other tools write it.
func withoutLabels(t testing.TB) *profile.Profile {
	p := server(t)
	for _, s := range p.Sample {
		s.Label, s.NumLabel = nil, nil
	}
	p.Comments = nil
	return p
}

func written(t testing.TB, format string, p *profile.Profile) string {
	t.Helper()
	f, err := ByName(format)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, f.Write(&out, p))
	return out.String()
}

// TestProcesses checks that only profiles of Headwater have names of processes as root frames.
func TestProcesses(t *testing.T) {
	require.True(t, rootsAreProcesses(server(t)))
	for name, change := range map[string]func(m *maker){
		"a root with a binary": func(m *maker) { m.sample(1, "/bin/server:start") },
		"a root with a line": func(m *maker) {
			m.sample(1, ":run")
			m.locations[":run"].Line[0].Function.Filename = "shop.py"
		},
		"a root with an address": func(m *maker) {
			m.sample(1, ":")
		},
		"a stack without its root": func(m *maker) { m.sample(1, ":[incomplete: no rows]", "/bin/server:work") },
	} {
		m := newMaker()
		m.sample(1, ":server", "/bin/server:main")
		require.True(t, rootsAreProcesses(m.Profile))
		change(m)
		require.False(t, rootsAreProcesses(m.Profile), name)
		all, _, _, err := Stacks(m.Profile)
		require.NoError(t, err)
		require.Equal(t, Frame{Name: "server"}, all[0].Frames[0], name)
		require.Empty(t, all[0].Process)
	}
	m := newMaker()
	m.sample(1, ":main", ":work") // no binary at all, as in a folded stack
	require.False(t, rootsAreProcesses(m.Profile))
}

// TestFormats checks that each format is found by its name and by its suffixes, and writes output for profiles with
// labels, without labels and without samples.
func TestFormats(t *testing.T) {
	empty := newMaker().Profile
	for _, f := range Formats() {
		require.NotEmpty(t, f.About, f.Name)
		for _, suffix := range f.Suffixes {
			got, err := ByFile("some/file" + suffix)
			require.NoError(t, err)
			require.Equal(t, f.Name, got.Name, suffix)
		}
		require.NotEmpty(t, written(t, f.Name, server(t)), f.Name)
		if f.Name != "trace" { // which needs times
			require.NotEmpty(t, written(t, f.Name, withoutLabels(t)), f.Name)
		}
		written(t, f.Name, empty)
	}
	_, err := ByName("flames")
	require.ErrorContains(t, err, `unknown format "flames", the formats are: pprof, html, folded`)
	_, err = ByFile("out.txt")
	require.ErrorContains(t, err, `.pb.gz (pprof), .html (html)`)
	require.ErrorIs(t, Trace(&bytes.Buffer{}, withoutLabels(t)), errNoTimes)
}

// TestPprof checks that Pprof writes the whole profile, with its labels and times.
func TestPprof(t *testing.T) {
	p := server(t)
	got, err := profile.ParseData([]byte(written(t, "pprof", p)))
	require.NoError(t, err)
	require.Equal(t, p.String(), got.String())
	require.Len(t, got.Sample[0].NumLabel[pprof.Timestamp], 3)
}

func TestFolded(t *testing.T) {
	require.Equal(t, `server;pool: 1 (8);start;server+0x60 2
server;server (7);main;work;step 3
server;server (7);main;write;do_syscall_64 1
`, written(t, "folded", server(t)))
	require.Equal(t, `server;main;work;step 3
server;main;write;do_syscall_64 1
server;start;server+0x60 2
`, written(t, "folded", withoutLabels(t)))
}

// TestFoldedLines checks that names cannot break lines.
func TestFoldedLines(t *testing.T) {
	m := newMaker()
	m.sample(1, ":a;b\nc d")
	require.Equal(t, "a:b c d 1\n", written(t, "folded", m.Profile))
}

// TestSpeedscope checks that each thread has a profile, in the profile's unit.
func TestSpeedscope(t *testing.T) {
	var file speedscopeFile
	require.NoError(t, json.Unmarshal([]byte(written(t, "speedscope", server(t))), &file))
	require.Equal(t, "process 7 (server)", file.Name)
	require.Len(t, file.Profiles, 2)
	first := file.Profiles[0]
	require.Equal(t, "server (7)", first.Name)
	require.Equal(t, "nanoseconds", first.Unit)
	require.Equal(t, []int64{30e6, 10e6}, first.Weights)
	require.EqualValues(t, 40e6, first.End)
	var names []string
	for _, id := range first.Samples[0] {
		names = append(names, file.Shared.Frames[id].Name)
	}
	require.Equal(t, []string{"server", "main", "work", "step"}, names)
	require.Equal(t, speedscopeFrame{"step", "server.c", 20}, file.Shared.Frames[first.Samples[0][3]])
	require.Len(t, decoded[speedscopeFile](t, "speedscope", withoutLabels(t)).Profiles, 1)
}

func decoded[T any](t testing.TB, format string, p *profile.Profile) (out T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(written(t, format, p)), &out))
	return out
}

// TestHTML checks that the page has the data, and refers to no other file.
func TestHTML(t *testing.T) {
	m := newMaker()
	m.sample(1, ":</script><script>alert(1)</script>")
	m.Comments = []string{Recorded + "<b>bold</b>"}
	page := written(t, "html", m.Profile)
	require.NotContains(t, page, "alert(1)</script>")
	require.NotContains(t, page, "<b>")
	require.Contains(t, page, "1 samples, 100 a second and CPU")
	require.NotContains(t, page, "src=")
	require.Equal(t, 1, strings.Count(page, "<link"))
	page = written(t, "html", server(t))
	require.Contains(t, page, "process 7 (server)")
	require.Contains(t, page, `"pool; 1 (8)"`)
}

// TestFunctions checks self and total of functions; a recursive function counts once.
func TestFunctions(t *testing.T) {
	m := newMaker()
	m.sample(3, ":server", "/bin/server:main", "/bin/server:recurse", "/bin/server:recurse")
	m.sample(1, ":server", "/bin/server:main")
	functions, total, err := Functions(m.Profile)
	require.NoError(t, err)
	require.EqualValues(t, 40e6, total)
	of := func(samples int64) Amount { return equal(samples, 1e7) }
	require.Equal(t, []Function{
		{"recurse", "/bin/server", 30e6, 30e6, of(3), of(3)}, {"main", "/bin/server", 10e6, 40e6, of(1), of(4)},
		{"server", "", 0, 40e6, of(0), of(4)},
	}, functions)
	require.Equal(t, "server", functions[0].Where())
}
