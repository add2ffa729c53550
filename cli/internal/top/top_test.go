package top

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/pprof"
)

const (
	period = 10_000_000 // 100 Hz, ns
	round  = 2 * time.Second
)

// sample is a stack of a thread, root first: functions of files as "file:function".
type sample struct {
	pid, tid int
	thread   string
	stack    string
	samples  int
}

// shop is what a host with two busy programs did.
func shop() []sample {
	return []sample{
		{100, 101, "http-1", "shopd shopd:main shopd:serve shopd:price", 60},
		{100, 101, "http-1", "shopd shopd:main shopd:serve shopd:sort libc.so.6:msort shopd:cmp", 30},
		{100, 102, "http-2", "shopd shopd:main shopd:serve shopd:serve [kernel.kallsyms]:do_syscall_64", 20},
		{200, 200, "db", "db db:main db+0x1240:db+0x1240", 40},
	}
}

// profileOf makes a profile of samples.
func profileOf(t testing.TB, samples []sample) *profile.Profile {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: period,
	}
	mappings, locations := map[string]*profile.Mapping{}, map[string]*profile.Location{}
	location := func(text string) *profile.Location {
		if l := locations[text]; l != nil {
			return l
		}
		file, name, isCode := strings.Cut(text, ":")
		l := &profile.Location{ID: uint64(len(locations) + 1)}
		if isCode {
			if file = strings.TrimSuffix(file, "+0x1240"); mappings[file] == nil {
				m := &profile.Mapping{ID: uint64(len(mappings) + 1), File: file}
				mappings[file] = m
				p.Mapping = append(p.Mapping, m)
			}
			l.Mapping = mappings[file]
		} else {
			name = text
		}
		f := &profile.Function{ID: l.ID, Name: name}
		l.Line = []profile.Line{{Function: f}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		locations[text] = l
		return l
	}
	for _, s := range samples {
		out := &profile.Sample{Value: []int64{int64(s.samples) * period}, Label: map[string][]string{
			record.LabelPID: {fmt.Sprint(s.pid)}, record.LabelThreadID: {fmt.Sprint(s.tid)}, record.LabelThreadName: {s.thread},
		}}
		for _, text := range strings.Fields(s.stack) {
			out.Location = append([]*profile.Location{location(text)}, out.Location...)
		}
		p.Sample = append(p.Sample, out)
	}
	require.NoError(t, p.CheckValid())
	return p
}

// parts are rounds of samples, one after the other.
type parts struct {
	t    testing.TB
	now  time.Time
	done record.Progress
}

func (p *parts) next(samples []sample) record.Part {
	n := uint64(0)
	for _, s := range samples {
		n += uint64(s.samples)
	}
	p.done.Samples += n
	p.done.WithUser += n
	p.done.Whole += n - n/50
	p.done.Lost++
	p.done.Expected += n + 1
	out := record.Part{Begun: p.now, Duration: round, Progress: p.done}
	if n > 0 {
		out.Profile = profileOf(p.t, samples)
	}
	p.now = p.now.Add(round)
	return out
}

func newParts(t testing.TB) *parts { return &parts{t: t, now: time.Unix(1_800_000_000, 0)} }

// newView returns a view of the shop.
func newView(t testing.TB, by By) *View {
	t.Helper()
	v := NewView(About{What: "this host", Rate: 100}, by, 30*time.Second)
	v.Resize(100, 20)
	v.Add(newParts(t).next(shop()), Now{OwnCPU: 0.0125, Command: func(pid int64) string {
		return map[int64]string{100: "./shopd --port 80", 200: "db"}[pid]
	}})
	return v
}

// text is what a view shows.
func text(v *View) string {
	var b strings.Builder
	for _, line := range v.Lines() {
		var l strings.Builder
		for _, s := range line {
			l.WriteString(s.Text)
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	return b.String()
}

// body is the lines between the headings and the last one, without those that are empty.
func body(v *View) string {
	lines := strings.Split(text(v), "\n")
	return strings.TrimRight(strings.Join(lines[headings:len(lines)-2], "\n"), "\n")
}

func press(v *View, keys ...string) {
	for _, k := range keys {
		v.Key(k)
	}
}

func TestTables(t *testing.T) {
	for by, want := range map[By]string{
		ByProcess: "   55.0   73.3 %      100 shopd  ./shopd --port 80\n" +
			"   20.0   26.7 %      200 db",
		ByThread: "   45.0   60.0 %      100      101 http-1  shopd\n" +
			"   20.0   26.7 %      200      200 db\n" +
			"   10.0   13.3 %      100      102 http-2  shopd",
		ByFunction: "   30.0   40.0 %   40.0 % price  shopd\n" +
			"   20.0   26.7 %   26.7 % db+0x1240\n" +
			"   15.0   20.0 %   20.0 % cmp  shopd\n" +
			"   10.0   13.3 %   13.3 % do_syscall_64  [kernel.kallsyms]\n" +
			"    0.0    0.0 %   73.3 % main  shopd\n" +
			"    0.0    0.0 %   73.3 % serve  shopd\n" +
			"    0.0    0.0 %   26.7 % main  db\n" +
			"    0.0    0.0 %   20.0 % msort  libc.so.6\n" +
			"    0.0    0.0 %   20.0 % sort  shopd",
		ByBinary: "   45.0   60.0 %   73.3 % shopd\n" +
			"   20.0   26.7 %   26.7 % db\n" +
			"   10.0   13.3 %   13.3 % [kernel.kallsyms]\n" +
			"    0.0    0.0 %   20.0 % libc.so.6",
	} {
		require.Equal(t, want, body(newView(t, by)), by)
	}
}

// TestHonesty: the head describes the selection, and the completeness of the view.
func TestHonesty(t *testing.T) {
	lines := strings.Split(text(newView(t, ByProcess)), "\n")
	require.Equal(t, "headwater top  this host  last 2 s at 100 Hz  by process", lines[0])
	require.Equal(t, "150 samples  0.75 CPUs busy  98.0 % of stacks whole  1 lost  26.7 % without a name  own CPU 1.2 %",
		lines[1])
	empty := NewView(About{What: "process 7", Rate: 100}, ByProcess, round)
	require.Contains(t, text(empty), "sampling ...")
	p := newParts(t)
	empty.Add(p.next(nil), Now{})
	require.Contains(t, text(empty), "0 samples  0.00 CPUs busy  - of stacks whole")
	require.Contains(t, text(empty), "the shown processes used no CPU time")
}

// TestFlame: boxes have the width of their share, and are below their own callers only.
func TestFlame(t *testing.T) {
	v := newView(t, ByFlame)
	require.Equal(t, ""+
		"▏all\n"+
		"▏shopd                                                                   ▏db\n"+
		"▏main                                                                    ▏main\n"+
		"▏serve                                                                   ▏db+0x1240\n"+
		"▏price                                  ▏sort               ▏serve\n"+
		"                                        ▏msort              ▏do_syscall_…\n"+
		"                                        ▏cmp", body(v))
	press(v, "Down", "Down", "Down", "Down", "Right")
	require.Contains(t, text(v), "20.0 % total  0.0 % self  15.0 CPU%  sort  shopd  native")
	press(v, "Enter")
	require.Equal(t, "▏all\n▏shopd\n▏main\n▏serve\n▏sort\n▏msort\n▏cmp", body(v))
	press(v, "Esc", "i")
	lines := strings.Split(body(v), "\n")
	require.Equal(t, "▏all", lines[len(lines)-1])
	press(v, "i", "Esc", "Esc", "Esc", "Esc", "/", "d", "b", "Enter")
	require.NotContains(t, body(v), "shopd")
	require.Contains(t, body(v), "▏db+0x1240")
}

// TestBoxes: for any stacks, boxes are within their callers and do not overlap.
func TestBoxes(t *testing.T) {
	v := newView(t, ByFlame)
	for width := range 200 {
		boxes := flame(v.window.totals(), nil, width)
		ends := map[int]int{}
		for i, b := range boxes {
			require.GreaterOrEqual(t, b.x, ends[b.depth])
			ends[b.depth] = b.x + b.width
			if i > 0 {
				parent := boxes[b.parent]
				require.Equal(t, parent.depth+1, b.depth)
				require.True(t, parent.x <= b.x && b.x+b.width <= parent.x+parent.width)
			}
		}
	}
}

// TestOpen: selected entries can be entered, level by level, and left again.
func TestOpen(t *testing.T) {
	v := newView(t, ByProcess)
	press(v, "Down", "Enter")
	require.Equal(t, ""+
		"   20.0  100.0 %  100.0 % db+0x1240\n"+
		"    0.0    0.0 %  100.0 % main  db", body(v))
	require.Contains(t, text(v), "in process 200 db\n")
	press(v, "Esc")
	require.Equal(t, 1, v.cursor)
	press(v, "b", "Down", "Down", "Down", "Enter")
	require.Equal(t, "    0.0    0.0 %  100.0 % msort  libc.so.6", body(v), "functions of the library alone")
	press(v, "Enter")
	require.Contains(t, text(v), "in libc.so.6 > msort\n")
	require.Equal(t, "▏all\n▏shopd\n▏main\n▏serve\n▏sort\n▏msort\n▏cmp", body(v))
	press(v, "Esc", "Esc", "Esc", "Esc")
	require.Equal(t, ByBinary, v.by)
	require.Empty(t, v.scopes)
}

func TestSortAndFilter(t *testing.T) {
	v := newView(t, ByFunction)
	press(v, "s", "s")
	require.Contains(t, text(v), "▼TOTAL")
	require.True(t, strings.HasPrefix(body(v), "    0.0    0.0 %   73.3 % main  shopd\n"), body(v))
	press(v, "s", "S")
	require.True(t, strings.HasPrefix(body(v), "    0.0    0.0 %   20.0 % sort  shopd\n"), body(v))
	press(v, "/", "P", "r", "i", "x", "Backspace", "c", "q")
	require.Contains(t, text(v), "no row matches the filter")
	press(v, "Backspace", "Enter")
	require.Equal(t, "   30.0   40.0 %   40.0 % price  shopd", body(v))
	press(v, "Esc", "/", "(", "0", "Enter")
	require.Contains(t, text(v), "no row matches the filter", "what is no regular expression stands for itself")
	press(v, "Esc")
	require.Contains(t, body(v), "sort  shopd")
}

// TestCursorFollows: the cursor stays on its row while the order changes, and at the top if it is there.
func TestCursorFollows(t *testing.T) {
	p := newParts(t)
	v := NewView(About{Rate: 100}, ByProcess, 30*time.Second)
	v.Add(p.next(shop()), Now{})
	press(v, "Down")
	busy := []sample{{200, 200, "db", "db db:main", 900}, {300, 300, "new", "new new:main", 500}}
	v.Add(p.next(busy), Now{})
	require.Equal(t, int64(200), v.selected().PID)
	require.Equal(t, 0, v.cursor)
	v.Add(p.next([]sample{{300, 300, "new", "new new:main", 900}}), Now{})
	require.Equal(t, int64(200), v.selected().PID)
	press(v, "Home")
	require.Equal(t, int64(300), v.selected().PID)
}

// TestWindow: samples older than the window are dropped, and numbers of frames with them.
func TestWindow(t *testing.T) {
	p := newParts(t)
	v := NewView(About{Rate: 100}, ByFunction, 2*round)
	v.Add(p.next(shop()), Now{})
	for n := range 3 {
		v.Add(p.next([]sample{{300, 300, "new", "new new:main", 10 * (n + 1)}}), Now{})
	}
	require.Equal(t, uint64(50), v.window.progress().Samples)
	require.Equal(t, uint64(2), v.window.progress().Lost)
	require.Equal(t, (2 * round).Seconds(), v.window.seconds())
	require.Len(t, v.rows, 1)
	require.Equal(t, int64(50*period), v.rows[0].Self)
	kept, err := v.window.Profile()
	require.NoError(t, err)
	require.Equal(t, int64(50*period), kept.Sample[0].Value[0])
	press(v, "c")
	require.Empty(t, v.rows)
}

// TestManyStacks: unused stacks are dropped, and the remaining ones stay unchanged.
func TestManyStacks(t *testing.T) {
	p := newParts(t)
	v := NewView(About{Rate: 100}, ByFlame, round)
	for n := range 3 {
		var many []sample
		for i := range 10_000 {
			many = append(many, sample{1, 1, "p", fmt.Sprintf("p p:main p:f%d_%d", n, i), 1})
		}
		v.Add(p.next(append(many, shop()...)), Now{})
		press(v, "Down")
	}
	require.Less(t, len(v.window.stacks), 25_000)
	require.Equal(t, int64(10_150*period), v.total)
	require.Equal(t, []Frame{{Name: "p"}, {Name: "main", Binary: "p", Kind: v.window.names.all[v.at[1]].Kind}},
		v.framesOf(v.at[:2]))
}

// TestPause: a paused view does not change, and samples taken during the pause never count.
func TestPause(t *testing.T) {
	p := newParts(t)
	v := NewView(About{Rate: 100}, ByProcess, 30*time.Second)
	v.Add(p.next(shop()), Now{})
	press(v, " ")
	before := body(v)
	v.Add(p.next([]sample{{300, 300, "new", "new new:main", 900}}), Now{})
	require.Equal(t, before, body(v))
	require.Contains(t, text(v), "paused")
	press(v, " ")
	v.Add(p.next(shop()), Now{})
	require.NotContains(t, body(v), "new")
	require.Contains(t, text(v), "300 samples  0.75 CPUs busy")
}

func TestWaits(t *testing.T) {
	v := newView(t, ByProcess)
	press(v, "w")
	requireWaitsOf(t, v, 100)
	v.SetWaits(Waits{PID: 100, Threads: []record.Thread{
		{PID: 100, TID: 100, Name: "shopd", State: kernel.Sleeping, Wait: "lock", Off: 90 * time.Minute, In: "futex_do_wait"},
		{PID: 100, TID: 101, Name: "http-1", State: kernel.Running},
		{PID: 100, TID: 102, Name: "http-2", State: kernel.Uninterruptible, Wait: "disk", Off: 12 * time.Millisecond},
	}})
	require.Equal(t, ""+
		"   45.0      101 running                                   http-1\n"+
		"   10.0      102 uninterruptible  disk               12 ms http-2\n"+
		"    0.0      100 sleeping         lock              90 min shopd  (futex_do_wait)", body(v))
	v.SetWaits(Waits{PID: 7, Threads: []record.Thread{{TID: 7, Name: "late"}}})
	require.NotContains(t, body(v), "late", "the answer of an earlier question")
	press(v, "s", "s", "s", "s")
	require.True(t, strings.HasPrefix(body(v), "    0.0      100 "), body(v))
}

func requireWaitsOf(t *testing.T, v *View, want int64) {
	t.Helper()
	pid, ok := v.WaitsOf()
	require.True(t, ok)
	require.Equal(t, want, pid)
}

// TestWaitsOfAll: threads of a process that do the same are one row, with the one that has done so for longest; what
// ought not to last comes first.
func TestWaitsOfAll(t *testing.T) {
	v := newView(t, ByWaits)
	requireWaitsOf(t, v, 0)
	v.SetWaits(Waits{Threads: []record.Thread{
		{PID: 100, TID: 100, Name: "shopd", State: kernel.Sleeping, Wait: "epoll", Off: 3 * time.Second, In: "ep_poll"},
		{PID: 100, TID: 101, Name: "http-1", State: kernel.Running},
		{PID: 100, TID: 102, Name: "http-2", State: kernel.Sleeping, Wait: "lock", Off: 2 * time.Second, In: "futex_do_wait"},
		{PID: 100, TID: 103, Name: "http-3", State: kernel.Sleeping, Wait: "lock", Off: 9 * time.Second, In: "futex_wait"},
		{PID: 7, TID: 7, Name: "dd", State: kernel.Uninterruptible, Wait: "disk", Off: 12 * time.Millisecond,
			In: "io_schedule"},
	}})
	require.Equal(t, ""+
		"uninterruptible  disk                  1     12 ms     0.0        7 dd  (io_schedule)\n"+
		"running                                1              45.0      100 shopd\n"+
		"sleeping         lock                  2     9.0 s    10.0      100 shopd  (futex_wait)\n"+
		"sleeping         epoll                 1     3.0 s     0.0      100 shopd  (ep_poll)", body(v))
	press(v, "/", "l", "o", "c", "k", "Enter")
	require.Equal(t, "sleeping         lock                  2     9.0 s    10.0      100 shopd  (futex_wait)", body(v))
	press(v, "Esc", "s", "s")
	require.True(t, strings.HasPrefix(body(v), "sleeping         lock  "), body(v))
	press(v, "Enter")
	requireWaitsOf(t, v, 100)
	require.Contains(t, text(v), "in process 100 shopd")
	require.Contains(t, body(v), "no threads")
	press(v, "Esc")
	requireWaitsOf(t, v, 0)
	press(v, "Tab")
	_, ok := v.WaitsOf()
	require.False(t, ok)
	press(v, "b", "w")
	requireWaitsOf(t, v, 0)
	press(v, "p", "w")
	requireWaitsOf(t, v, 100)
	press(v, "W")
	requireWaitsOf(t, v, 0)
}

// TestSizes: whatever size the terminal has and whatever keys are pressed, exactly the terminal is filled.
func TestSizes(t *testing.T) {
	keys := []string{"Down", "Enter", "Tab", "g", "Right", "i", "Enter", "PgDn", "w", "Esc", "s", "S", "End",
		"Enter", "?", "x", "f", "/", "p", "Enter", "g", "Enter", "Down", "Up", "Left", "Esc", "Esc", "Esc", "b", "Home",
		" ", "c", "t", "Up"}
	for _, size := range [][2]int{{1, 1}, {2, 3}, {7, 5}, {20, 4}, {40, 10}, {80, 24}, {300, 100}} {
		v := newView(t, ByProcess)
		for i, k := range keys {
			v.Key(k)
			v.Resize(size[0], size[1])
			lines := v.Lines()
			require.Len(t, lines, size[1], "%v after %q", size, keys[:i+1])
			for _, line := range lines {
				width := 0
				for _, s := range line {
					width += len([]rune(s.Text)) // all letters here are one column wide
				}
				require.LessOrEqual(t, width, size[0], "%v after %q", size, keys[:i+1])
			}
		}
	}
}

// TestHostileNames: names of programs cannot affect the terminal, and wide letters fit.
func TestHostileNames(t *testing.T) {
	v := NewView(About{Rate: 100}, ByFunction, round)
	hostile := []sample{{1, 1, "a\x1b[2Jb", "\x1b]0;title\a x:\x1b[31mred 漢:字字字字字字字字字字字字字字字字字字字字字字字字", 5}}
	v.Add(newParts(t).next(hostile), Now{Command: func(int64) string { return "" }})
	v.Resize(40, 10)
	for _, by := range []string{"f", "t", "p", "b", "g"} {
		press(v, by)
		require.NotContains(t, text(v), "\x1b")
		require.NotContains(t, text(v), "\a")
	}
}

// TestShort: the path of a Go package makes room for the function.
func TestShort(t *testing.T) {
	for name, want := range map[string]string{
		"example.com/a/jit.(*table).add": "jit.(*table).add", "std::map<a/b>::x": "std::map<a/b>::x", "main": "main",
		"operator/": "operator/", "a.F[example.com/b.T]": "a.F[example.com/b.T]",
	} {
		require.Equal(t, want, short(name))
	}
}

// TestSave: the kept samples are written to a new file, which never replaces another file.
func TestSave(t *testing.T) {
	t.Chdir(t.TempDir())
	v := NewView(About{Rate: 100}, ByProcess, 30*time.Second)
	_, _, err := v.saveWindow(time.Unix(1_800_000_000, 0))
	require.EqualError(t, err, "there are no samples to write yet")
	p := newParts(t)
	v.Add(p.next(shop()), Now{})
	v.Add(p.next(shop()), Now{})
	names := map[string]bool{}
	for range 2 {
		name, size, err := v.saveWindow(time.Unix(1_800_000_000, 0))
		require.NoError(t, err)
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Len(t, data, int(size))
		read, err := profile.ParseData(data)
		require.NoError(t, err)
		total := int64(0)
		for _, s := range read.Sample {
			total += s.Value[0]
		}
		require.Equal(t, int64(300*period), total)
		require.Equal(t, (2 * round).Nanoseconds(), read.DurationNanos)
		due, lost := pprof.LostOf(read)
		require.Equal(t, [2]uint64{302, 2}, [2]uint64{due, lost})
		names[name] = true
	}
	require.Len(t, names, 2)
	v.Save()
	require.Regexp(t, `wrote headwater-top-\S+\.pb\.gz \(1 KiB, 4 s\)`, text(v))
}

// TestPlain: tables for files and pipes have whole lines, and the rows that are wanted.
func TestPlain(t *testing.T) {
	v := newView(t, ByFunction)
	var out bytes.Buffer
	require.NoError(t, v.write(&out, Tables{Rows: 2, Columns: 40}))
	require.Equal(t, ""+
		"headwater top  this host  last 2 s at 100 Hz  by function\n"+
		"150 samples  0.75 CPUs busy  98.0 % of stacks whole  1 lost  26.7 % without a name  own CPU 1.2 %\n"+
		"  ▼CPU%     SELF    TOTAL FUNCTION\n"+
		"   30.0   40.0 %   40.0 % price  shopd\n"+
		"   20.0   26.7 %   26.7 % db+0x1240\n"+
		"and 7 more\n", out.String())
	out.Reset()
	require.NoError(t, newView(t, ByFlame).write(&out, Tables{Rows: 2, Columns: 60}))
	require.Contains(t, out.String(), "\n▏price                  ▏sort       ▏serve")

	out.Reset()
	require.NoError(t, v.write(&out, Tables{Rows: 1, JSON: true}))
	var doc struct {
		Of, By      string
		Samples     uint64
		TotalNS     int64 `json:"total_ns"`
		More        int
		Rows        []Row
		UnnamedNS   int64   `json:"unnamed_ns"`
		OwnCPUs     float64 `json:"own_cpus"`
		Seconds     float64
		Whole, Lost uint64
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &doc))
	require.Equal(t, []Row{{Name: "price", Binary: "shopd", Self: 60 * period, Total: 60 * period}}, doc.Rows)
	require.Equal(t, 8, doc.More)
	require.Equal(t, int64(150*period), doc.TotalNS)
	require.Equal(t, int64(40*period), doc.UnnamedNS)
	require.Equal(t, uint64(147), doc.Whole)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}
