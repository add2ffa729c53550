package export

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// TestTrace checks that functions last over their samples, end when another stack starts or the thread stops, and are
// nested in their callers.
func TestTrace(t *testing.T) {
	type event struct {
		Name, Ph string
		Ts       float64
		Pid, Tid int64
		Args     map[string]string
	}
	type span struct {
		name     string
		tid      int64
		from, to float64 // ms
		depth    int
	}
	file := decoded[struct{ TraceEvents []event }](t, "trace", server(t))
	var got []span
	open := map[int64][]span{}
	names := map[int64]string{}
	for _, e := range file.TraceEvents {
		require.EqualValues(t, 7, e.Pid)
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			names[e.Tid] = e.Args["name"]
		case e.Ph == "B":
			open[e.Tid] = append(open[e.Tid], span{e.Name, e.Tid, e.Ts / 1e3, 0, len(open[e.Tid])})
		case e.Ph == "E":
			last := len(open[e.Tid]) - 1
			ended := open[e.Tid][last]
			ended.to = e.Ts / 1e3
			got, open[e.Tid] = append(got, ended), open[e.Tid][:last]
		}
	}
	require.Equal(t, map[int64][]span{7: {}, 8: {}}, open)
	require.Equal(t, map[int64]string{7: "server", 8: "pool; 1"}, names)
	require.ElementsMatch(t, []span{
		{"main", 7, 0, 30, 0}, {"work", 7, 0, 20, 1}, {"step", 7, 0, 20, 2}, {"write", 7, 20, 30, 1},
		{"do_syscall_64", 7, 20, 30, 2}, {"main", 7, 40, 50, 0}, {"work", 7, 40, 50, 1}, {"step", 7, 40, 50, 2},
		{"start", 8, 10, 20, 0}, {"server+0x60", 8, 10, 20, 1}, {"start", 8, 30, 40, 0}, {"server+0x60", 8, 30, 40, 1},
	}, got)
}

// TestTraceOfRenamed checks that the events of a thread that runs two programs in turn do not overlap, and that it has
// the name of the last program.
func TestTraceOfRenamed(t *testing.T) {
	const begin = 1_700_000_000e9
	m := newMaker()
	thread1(m.sample(2, ":zsh", "/bin/zsh:main"), "7", "7", "zsh", begin, begin+10e6)
	thread1(m.sample(2, ":bash", "/bin/bash:start"), "7", "7", "bash", begin+13e6, begin+23e6)
	thread1(m.sample(1, ":cat", "/bin/cat:main"), "7", "7", "cat", begin+24e6)
	type event struct {
		Name, Ph string
		Ts       float64
		Args     map[string]string
	}
	file := decoded[struct{ TraceEvents []event }](t, "trace", m.Profile)
	var got []string
	for _, e := range file.TraceEvents {
		got = append(got, fmt.Sprint(e.Ph, " ", e.Name, " ", e.Args["name"], " ", e.Ts/1e3))
	}
	require.Equal(t, []string{
		"M process_name cat 0", "M thread_name cat 0", "B main  0", "E main  13", "B start  13", "E start  24", "B main  24",
		"E main  34",
	}, got)
}

func TestPerfScript(t *testing.T) {
	require.Equal(t, strings.TrimLeft(`
server 7/7 1700000000.000000:   10000000 cpu-clock: 
	              10 step (inlined)
	              10 work (/bin/server)
	              20 main (/bin/server)

server 7/7 1700000000.010000:   10000000 cpu-clock: 
	              10 step (inlined)
	              10 work (/bin/server)
	              20 main (/bin/server)

pool; 1 7/8 1700000000.010000:   10000000 cpu-clock: 
	              60 [unknown] (/bin/server)
	              70 start (/bin/server)

server 7/7 1700000000.020000:   10000000 cpu-clock: 
	              40 do_syscall_64 ([kernel.kallsyms])
	              50 write (/lib/libc.so.6)
	              20 main (/bin/server)
`, "\n"), strings.Join(strings.SplitAfter(written(t, "perf", server(t)), "\n")[:18], ""))
	require.Equal(t, 6, strings.Count(written(t, "perf", withoutLabels(t)), "server 0/0 0.000000:"))
	waiting := server(t)
	waiting.SampleType[0].Type = "offcpu"
	require.Contains(t, written(t, "perf", waiting), "server 7/7 1700000000.000000:   10000000 off-cpu: \n")
}

// TestManySamples checks that a profile of bytes, or of very many samples, gives a file of limited size.
func TestManySamples(t *testing.T) {
	m := newMaker()
	m.sample(1<<40, ":server", "/bin/server:main")
	require.Equal(t, 1, strings.Count(written(t, "perf", m.Profile), "cpu-clock"))
	m = newMaker()
	m.SampleType = []*profile.ValueType{{Type: "space", Unit: "bytes"}}
	m.sample(1<<40, ":server", "/bin/server:main")
	require.Equal(t, 1, strings.Count(written(t, "perf", m.Profile), "page-faults:"))
}

// TestGecko checks that every thread has its samples, and that their stacks refer to frames and strings.
func TestGecko(t *testing.T) {
	file := decoded[struct {
		Meta    struct{ Interval, StartTime float64 }
		Threads []struct {
			Name        string
			Pid, Tid    int64
			Samples     geckoTable
			FrameTable  geckoTable
			StackTable  geckoTable
			StringTable []string
		}
	}](t, "gecko", server(t))
	require.Equal(t, 10.0, file.Meta.Interval)
	require.Equal(t, 1.7e12, file.Meta.StartTime)
	require.Len(t, file.Threads, 2)
	first := file.Threads[0]
	require.Equal(t, "server", first.Name)
	var got []string
	for _, row := range first.Samples.Data {
		var names []string
		for at := row[first.Samples.Schema["stack"]]; at != nil; {
			stack := first.StackTable.Data[int(at.(float64))]
			frame := first.FrameTable.Data[int(stack[first.StackTable.Schema["frame"]].(float64))]
			names = append(names, first.StringTable[int(frame[first.FrameTable.Schema["location"]].(float64))])
			at = stack[first.StackTable.Schema["prefix"]]
		}
		got = append(got, strings.Join(names, " "))
	}
	work := "step (in server) work (in server) main (in server)"
	require.Equal(t, []string{work, work,
		"do_syscall_64 (in [kernel.kallsyms]) write (in libc.so.6) main (in server)", work}, got)
	require.Equal(t, []any{4.0, 20.0, 0.0, 10e6}, first.Samples.Data[2])
}

// TestSVG checks that the image is XML, with all frames that are wide enough.
func TestSVG(t *testing.T) {
	m := newMaker()
	m.sample(1, ":</svg><script>", "/bin/server:operator<")
	image := written(t, "svg", m.Profile)
	require.NotContains(t, image, "<script>")
	d := xml.NewDecoder(strings.NewReader(image))
	for {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}
	require.Contains(t, written(t, "svg", server(t)), "<title>do_syscall_64: 16.7 %</title>")
}

func TestJSON(t *testing.T) {
	file := decoded[jsonFile](t, "json", server(t))
	require.Equal(t, "process 7 (server)", file.Title)
	require.Len(t, file.Samples, 3)
	first := file.Samples[0]
	require.Equal(t, jsonSample{[]int{0, 1, 2, 3}, 30e6, 7, 7, "server", times(server(t).Sample[0])}, first)
	require.Equal(t, jsonFrame{"step", "_Zstep", "server.c", 23, 20, "/bin/server", true}, file.Frames[3])
}

// TestGoPGO checks that there are no labels and no processes, and that equal stacks are one sample.
func TestGoPGO(t *testing.T) {
	p, err := profile.ParseData([]byte(written(t, "pgo", server(t))))
	require.NoError(t, err)
	require.Len(t, p.Sample, 3)
	for _, s := range p.Sample {
		require.Empty(t, s.Label)
		require.Empty(t, s.NumLabel)
		require.NotEqual(t, "server", s.Location[len(s.Location)-1].Line[0].Function.Name)
	}
}

// TestAutoFDO checks that leaves count by line from the start of their function, below the functions that they are
// inlined into, and that code of the kernel and unnamed code do not count.
func TestAutoFDO(t *testing.T) {
	m := newMaker()
	m.sample(3, ":server", "/bin/server:main", "/bin/server:work|step")
	m.sample(2, ":server", "/bin/server:main")
	m.sample(4, ":server", "/bin/server:main", "/bin/server:work")
	m.sample(9, ":server", "/bin/server:main", "[kernel.kallsyms]:do_syscall_64")
	m.sample(9, ":server", "/bin/server:")
	require.Equal(t, `_Zwork:7:4
 3: 4
 3: _Zstep:3
  3: 3
_Zmain:2:2
 3: 2
`, written(t, "autofdo", m.Profile))
}
