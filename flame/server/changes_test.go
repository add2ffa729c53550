package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/pprof"
)

// deploys plays rounds of a service whose program gets new builds.
type deploys struct {
	t       *testing.T
	page    *Page
	now     time.Time
	random  *rand.Rand
	started map[uint32]time.Time // processes
	lost    uint64               // of 10,000 samples of the host
}

func newDeploys(t *testing.T) *deploys {
	d := &deploys{
		t: t, now: time.Now().Add(-time.Hour), random: rand.New(rand.NewPCG(3, 4)), started: map[uint32]time.Time{},
	}
	d.page = New(Options{Name: "test", Status: testStatus, Started: func(pid uint32) (time.Time, bool) {
		at, ok := d.started[pid]
		return at, ok
	}})
	return d
}

// ran is what one process did in a round: mean numbers of samples.
type ran struct {
	pid         uint32
	build       string
	price, rest float64
}

const deployProgram = "/usr/bin/shopd"

// rounds plays rounds in which processes run.
func (d *deploys) rounds(n int, all ...ran) {
	for range n {
		start := d.now
		d.now = d.now.Add(15 * time.Second)
		var profiles []Profile
		if len(all) > 0 {
			profiles = []Profile{d.profile(all)}
		}
		d.page.Add(start, d.now, profiles)
		d.page.changes.waitForWorker()
	}
}

func (d *deploys) profile(all []ran) Profile {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 10_000_000,
		DurationNanos: int64(15 * time.Second), TimeNanos: d.now.UnixNano(),
	}
	out := Profile{Labels: map[string]string{"service_name": "shop"}}
	for i, r := range all {
		if _, ok := d.started[r.pid]; !ok {
			d.started[r.pid] = d.now.Add(-7 * time.Second)
		}
		m := &profile.Mapping{ID: uint64(i + 1), File: deployProgram, BuildID: r.build}
		p.Mapping = append(p.Mapping, m)
		process := Process{PID: r.pid, Comm: "shopd", Program: deployProgram, Build: r.build}
		for name, mean := range map[string]float64{"price": r.price, "parse": r.rest, "render": r.rest / 2} {
			id := uint64(len(p.Function) + 1)
			f := &profile.Function{ID: id, Name: name}
			l := &profile.Location{ID: id, Mapping: m, Address: id, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			n := int64(max(0, mean+d.random.NormFloat64()*math.Sqrt(mean)))
			p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{n * p.Period}})
			process.Samples += uint64(n)
		}
		out.Processes, out.Samples = append(out.Processes, process), out.Samples+process.Samples
	}
	if d.lost > 0 {
		pprof.SetLost(p, 10_000, d.lost)
	}
	var data bytes.Buffer
	require.NoError(d.t, p.Write(&data))
	out.Data = data.Bytes()
	return out
}

// only returns the one change.
func (d *deploys) only() Change {
	d.t.Helper()
	changes, _ := d.page.Changes()
	require.Len(d.t, changes, 1)
	return changes[0]
}

func (c *Change) names() (more, less []string) {
	for _, f := range c.More() {
		more = append(more, f.Name)
	}
	for _, f := range c.Less() {
		less = append(less, f.Name)
	}
	return more, less
}

// TestSlowerBuild: exactly the functions that a new build made slower are named, by CPU time per second.
func TestSlowerBuild(t *testing.T) {
	d := newDeploys(t)
	d.rounds(10, ran{1, "aaa", 300, 900})
	require.Empty(t, d.page.changes.list)
	d.rounds(1, ran{1, "aaa", 150, 450}, ran{2, "bbb", 200, 400})
	require.Nil(t, ptr(d.only()).Report)
	d.rounds(6, ran{2, "bbb", 450, 900})
	c := d.only()
	require.Equal(t, []string{"shop", deployProgram, "aaa", "bbb"}, []string{c.Service, c.Program, c.Old, c.New})
	more, less := c.names()
	require.Equal(t, []string{"price"}, more)
	require.Empty(t, less)
	require.False(t, c.Both)
	f := c.More()[0]
	require.True(t, f.Low < 1.5 && *f.High > 1.5, "%v", f)
	require.InDelta(t, 300*0.01/15, f.Base, 0.02)
	require.Equal(t, 9, c.Report.Base.Runs) // the first interval is incomplete; the last with only aaa counts
	require.Equal(t, 5, c.Report.New.Runs)  // the first one and the newest do not count
	require.InDelta(t, 1.09, c.Report.All.New/c.Report.All.Base, 0.05)
}

// TestEqualBuilds: a rebuild of the same code names no function, in twenty out of twenty runs.
func TestEqualBuilds(t *testing.T) {
	for seed := range uint64(20) {
		d := newDeploys(t)
		d.random = rand.New(rand.NewPCG(seed, 9))
		d.rounds(12, ran{1, "aaa", 300, 900})
		d.rounds(45, ran{2, "bbb", 300, 900})
		c := d.only()
		require.NotNil(t, c.Report)
		more, less := c.names()
		require.Empty(t, append(more, less...), "seed %d", seed)
	}
}

// TestKept: profiles of both builds outlive the history, within a number of rounds and of bytes.
func TestKept(t *testing.T) {
	d := newDeploys(t)
	d.rounds(60, ran{1, "aaa", 300, 900})
	d.rounds(100, ran{2, "bbb", 300, 900})
	require.Less(t, d.page.history.allProfiles()[0].end, d.now.UnixMilli())
	c := d.page.changes.list[0]
	require.Len(t, c.new.rounds, maxSideRounds)
	require.InDelta(t, 38, len(c.old.rounds), 2) // those that the history had
	require.True(t, c.full)
	require.Positive(t, d.page.changes.bytes())
	old := d.page.pickSelected(selection{
		target: serviceID("shop"), from: 0, to: math.MaxInt64, exe: deployProgram, build: "aaa",
	})
	require.Len(t, old, len(c.old.rounds))

	d.page.changes.room = d.page.changes.bytes() - 1
	d.rounds(1)
	require.Empty(t, d.page.changes.list)
	require.Nil(t, d.page.changes.programs[programKey{"shop", deployProgram}].change)
}

// TestTooOld: a change is forgotten after a day.
func TestTooOld(t *testing.T) {
	d := newDeploys(t)
	d.rounds(10, ran{1, "aaa", 300, 900})
	d.rounds(10, ran{2, "bbb", 300, 900})
	d.only()
	d.now = d.now.Add(maxChangeAge)
	d.rounds(1)
	require.Empty(t, d.page.changes.list)
}

// TestBothRun: while both builds run, as parts of an unequal number of processes, parts of their CPU time are compared;
// then, when the old one has ended, CPU a second.
func TestBothRun(t *testing.T) {
	d := newDeploys(t)
	d.rounds(10, ran{1, "aaa", 300, 900})
	d.rounds(12, ran{1, "aaa", 200, 600}, ran{2, "bbb", 150, 300})
	c := d.only()
	require.True(t, c.Both)
	more, less := c.names()
	require.Equal(t, []string{"price"}, more)
	require.NotContains(t, less, "price")
	d.rounds(12, ran{2, "bbb", 450, 900})
	c = d.only()
	require.False(t, c.Both)
	more, less = c.names()
	require.Equal(t, []string{"price"}, more)
	require.Empty(t, less)
}

// TestSideBySide: builds that run side by side all the time are no change, however seldom one is seen.
func TestSideBySide(t *testing.T) {
	d := newDeploys(t)
	d.started[1], d.started[2] = d.now.Add(-time.Hour), d.now.Add(-time.Hour)
	d.rounds(10, ran{1, "aaa", 300, 900})
	d.rounds(1, ran{2, "bbb", 300, 900})
	d.rounds(5, ran{1, "aaa", 300, 900}, ran{2, "bbb", 300, 900})
	d.rounds(5, ran{2, "bbb", 300, 900})
	require.Empty(t, d.page.changes.list)
}

// TestReexec: a process that executes a new build of its program is a change.
func TestReexec(t *testing.T) {
	d := newDeploys(t)
	d.started[1] = d.now.Add(-time.Hour)
	d.rounds(10, ran{1, "aaa", 300, 900})
	d.rounds(5, ran{1, "bbb", 300, 900})
	require.Equal(t, "bbb", d.only().New)
}

// TestRollback: the old build again is a change too, and one that came and went at once leaves no trace.
func TestRollback(t *testing.T) {
	d := newDeploys(t)
	d.rounds(10, ran{1, "aaa", 300, 900})
	d.rounds(6, ran{2, "bbb", 450, 900})
	d.rounds(6, ran{3, "aaa", 300, 900})
	c := d.only()
	require.Equal(t, []string{"bbb", "aaa"}, []string{c.Old, c.New})
	_, less := c.names()
	require.Equal(t, []string{"price"}, less)

	d = newDeploys(t)
	d.rounds(10, ran{1, "aaa", 300, 900})
	d.rounds(2, ran{2, "bbb", 450, 900})
	d.rounds(6, ran{3, "aaa", 300, 900})
	require.Empty(t, d.page.changes.list)

	d = newDeploys(t)
	d.rounds(10, ran{1, "aaa", 300, 900})
	d.rounds(2, ran{2, "bbb", 450, 900}) // too short to say anything
	d.rounds(6, ran{3, "ccc", 300, 900})
	c = d.only()
	require.Equal(t, []string{"aaa", "ccc"}, []string{c.Old, c.New})
}

// TestIdleRounds: intervals without a sample count as time without CPU use.
func TestIdleRounds(t *testing.T) {
	d := newDeploys(t)
	for range 6 {
		d.rounds(1, ran{1, "aaa", 300, 900})
		d.rounds(1)
	}
	d.rounds(8, ran{2, "bbb", 300, 900})
	c := d.only()
	require.InDelta(t, 2, c.Report.All.New/c.Report.All.Base, 0.4)
}

// TestFewSamples: what a program with few samples did is not kept.
func TestFewSamples(t *testing.T) {
	d := newDeploys(t)
	d.rounds(10, ran{1, "aaa", 1, 2})
	d.rounds(10, ran{2, "bbb", 300, 900})
	require.Empty(t, d.page.changes.list)
}

// TestLostSamples: many lost samples are said, not compared.
func TestLostSamples(t *testing.T) {
	d := newDeploys(t)
	d.rounds(10, ran{1, "aaa", 300, 900})
	d.lost = 4000
	d.rounds(10, ran{2, "bbb", 450, 900})
	c := d.only()
	require.Nil(t, c.Report)
	require.Contains(t, c.Problem, "new profile: its host lost 40.0 % of the samples")
}

// TestWithoutBuildID: files are distinguished by size and time, if they do not run at the same time.
func TestWithoutBuildID(t *testing.T) {
	b := build{deployProgram, "file:10-1"}
	require.False(t, b.distinct())
	require.True(t, b.isMappedAt(&profile.Mapping{File: deployProgram}))
	require.False(t, b.isMappedAt(&profile.Mapping{File: deployProgram, BuildID: "aaa"}))
	require.False(t, b.isMappedAt(nil))
}

// TestDiffPage: the page names the function; its flame graphs and JSON contain only the two builds.
func TestDiffPage(t *testing.T) {
	d := newDeploys(t)
	server := serve(t, d.page)
	d.rounds(10, ran{1, "aaa", 300, 900})
	d.rounds(1, ran{1, "aaa", 300, 900}, ran{2, "bbb", 300, 900})
	ask := url.Values{"target": {serviceID("shop")}, "exe": {deployProgram}, "build": {"aaa,bbb"}}.Encode()
	status, body := fetch(t, server.URL+prefix+"/diff?"+ask)
	require.Equal(t, 200, status)
	require.Contains(t, body, "needs whole intervals of the new build")
	status, body = fetch(t, server.URL+prefix+"/api/diff?"+ask)
	require.Equal(t, 404, status)
	require.Contains(t, body, "the new build has too few samples")

	d.rounds(8, ran{2, "bbb", 450, 900})
	_, body = get(t, server.URL+prefix+"/")
	require.Contains(t, body, "1 more expensive, 0 less")
	require.Contains(t, body, `href="./diff?build=aaa%2Cbbb&amp;exe=%2Fusr%2Fbin%2Fshopd&amp;target=`+serviceID("shop"))
	_, body = get(t, server.URL+prefix+"/diff?"+ask)
	require.Contains(t, body, "1 function became more expensive.")
	require.Contains(t, body, `<th scope="row">price</th>`)

	var answer diffAnswer
	_, body = get(t, server.URL+prefix+"/api/diff?"+ask)
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	require.Equal(t, "price", answer.Report.Changed[0].Name)
	require.Equal(t, "second", answer.Diff.Per)
	require.NotEmpty(t, answer.Nodes.BaseTotal)

	for _, id := range []string{"aaa", "bbb"} {
		v := url.Values{"target": {serviceID("shop")}, "exe": {deployProgram}, "build": {id}, "from": {"1"},
			"to": {fmt.Sprint(d.now.UnixMilli())}}
		tree := getTree(t, server.URL+prefix+"/api/tree?"+v.Encode())
		require.Equal(t, []string{id}, []string{tree.Strings[tree.Mappings.BuildID[0]]})
		require.Equal(t, "/usr/bin/shopd, build "+id, tree.Process)
		status, _ = fetch(t, server.URL+prefix+"/flame?"+v.Encode())
		require.Equal(t, 200, status)
	}
	status, _ = fetch(t, server.URL+prefix+"/diff?target=x&exe=y&build=a,b")
	require.Equal(t, 410, status)
}

// TestDiffOfTimes: any two times can be compared.
func TestDiffOfTimes(t *testing.T) {
	d := newDeploys(t)
	server := serve(t, d.page)
	begin := d.now
	d.rounds(8, ran{1, "aaa", 300, 900})
	middle := d.now
	d.rounds(8, ran{1, "aaa", 600, 900})
	ms := func(at time.Time) string { return fmt.Sprint(at.UnixMilli()) }
	ask := url.Values{"target": {"all"}, "base_from": {ms(begin)}, "base_to": {ms(middle)}, "from": {ms(middle)},
		"to": {ms(d.now)}}
	_, body := get(t, server.URL+prefix+"/diff?"+ask.Encode())
	require.Contains(t, body, "1 function became more expensive.")
	require.Contains(t, body, `<th scope="row">price</th>`)
	status, body := fetch(t, server.URL+prefix+"/api/diff?"+ask.Encode())
	require.Equal(t, 200, status)
	require.Contains(t, body, `"base_total"`)
	ask.Set("base_to", "x")
	status, body = fetch(t, server.URL+prefix+"/api/diff?"+ask.Encode())
	require.Equal(t, 400, status)
	require.Contains(t, body, `base_from and base_to: to \"x\" is not a time`)
}

func ptr(c Change) *Change { return &c }

func fetch(t testing.TB, address string) (status int, body string) {
	answer, body := get(t, address)
	return answer.StatusCode, body
}
