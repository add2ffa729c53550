package page

import (
	"bytes"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/server"
)

const (
	shopRounds  = 20 // of 15 seconds: the five minutes that the page shows at first
	shopProgram = "/usr/bin/shopd"
	shopPeriod  = 10_000_000 // ns of CPU time for each sample
)

// shopStack is a stack of the service, the outermost function first, and how many samples a round has of it.
type shopStack struct {
	thread string
	mean   float64
	frames []string // "file:function"; the default file is the program
}

// shopStacks are what the service shop does. A new build of its program, which comes after half of the rounds, has a
// function price that takes half as much again.
func shopStacks() []shopStack {
	serve := func(thread string, mean float64, more ...string) shopStack {
		return shopStack{thread, mean, append([]string{"main", "serve"}, more...)}
	}
	const malloc, kernel = "/usr/lib/libc.so.6:malloc", "[kernel.kallsyms]:do_syscall_64"
	return []shopStack{
		serve("http-1", 200, "price"),
		serve("http-1", 30, "price", malloc),
		serve("http-1", 90, "parse", malloc),
		serve("http-1", 60, "parse"),
		serve("http-2", 150, "render"),
		serve("http-2", 20, "render", malloc),
		serve("http-2", 110, "/usr/lib/libc.so.6:write", kernel),
		{"gc", 140, []string{"runtime.gcBgMarkWorker", "runtime.scanobject"}},
	}
}

// shop is a page with what the service shop and the program batch did in five minutes.
type shop struct {
	server *httptest.Server
	page   *server.Page
	end    time.Time
	random *rand.Rand

	samples map[string]float64 // of stacks that have a frame, by function; of a thread, by "thread NAME"; of all, by ""
	self    map[string]float64 // of stacks that end in a function
}

func newShop(t *testing.T) *shop {
	s := &shop{
		end: time.Now().Truncate(time.Second), random: rand.New(rand.NewPCG(5, 6)),
		samples: map[string]float64{}, self: map[string]float64{},
	}
	deploy := s.end.Add(-shopRounds / 2 * 15 * time.Second)
	s.page = server.New(server.Options{Name: "test", Status: shopStatus,
		Started: func(pid uint32) (time.Time, bool) {
			return map[uint32]time.Time{1: s.end.Add(-time.Hour), 2: deploy, 3: s.end.Add(-time.Hour)}[pid], true
		}})
	for i := range shopRounds {
		pid, build, factor := uint32(1), "aaaa1111", 1.
		if i >= shopRounds/2 {
			pid, build, factor = 2, "bbbb2222", 1.5
		}
		s.addRound(t, s.end.Add(time.Duration(i+1-shopRounds)*15*time.Second), pid, build, factor)
	}
	s.server = httptest.NewServer(http.StripPrefix("/profiler", s.page))
	t.Cleanup(s.server.Close)
	return s
}

// shopStatus is the condition of the profiler: 300 of its 20,000 stacks are incomplete, most of them in one library.
func shopStatus() server.Status {
	outcome := func(o unwind.Outcome, samples uint64) server.Outcome {
		return server.Outcome{Name: o.String(), Text: o.Explain(), Good: o.Complete(), Samples: samples}
	}
	return server.Status{Healthy: true, Interval: 15 * time.Second, SampleRate: 100, ByName: true, ByPID: true,
		SampleLabels: []string{"thread_name"}, Expected: 20_000, Delivered: 20_000,
		Outcomes: []server.Outcome{
			outcome(unwind.Complete, 19_700), outcome(unwind.NoRow, 260), outcome(unwind.DepthLimit, 40),
		},
		Incomplete: []server.Incomplete{
			{File: "/opt/vendor/libold.so", Outcome: "no_row", Samples: 255},
			{File: shopProgram, Outcome: "depth_limit", Samples: 40},
			{File: "/usr/lib/libother.so", Outcome: "no_row", Samples: 5},
		},
	}
}

// addRound adds 15 seconds up to end. price takes factor times as much.
func (s *shop) addRound(t *testing.T, end time.Time, pid uint32, build string, factor float64) {
	t.Helper()
	b := newShopProfile(end, build)
	service := server.Process{PID: pid, Comm: "shopd", Program: shopProgram, Build: build}
	for _, stack := range shopStacks() {
		mean := stack.mean
		if stack.frames[len(stack.frames)-1] == "price" {
			mean *= factor
		}
		n := math.Round(mean + s.random.NormFloat64()*math.Sqrt(mean))
		b.add("shopd", stack, int64(n))
		service.Samples += uint64(n)
		s.count(stack, n)
	}
	batch := shopStack{"batch", 100, []string{"/usr/bin/batch:main", "/usr/bin/batch:crunch"}}
	b.add("batch", batch, 100)
	s.count(batch, 100)
	service.WithUser, service.Complete = service.Samples, service.Samples
	s.page.Add(end.Add(-15*time.Second), end, []server.Profile{{
		Labels: map[string]string{"service_name": "shop"}, Data: b.bytes(t), Samples: service.Samples + 100,
		WithUser: service.Samples + 100, Complete: service.Samples + 100, Period: shopPeriod,
		Processes: []server.Process{service, {
			PID: 3, Comm: "batch", Program: "/usr/bin/batch", Build: "cccc3333", Samples: 100, WithUser: 100, Complete: 100,
		}},
	}})
}

// count adds a stack to the expected values of the profiles.
func (s *shop) count(stack shopStack, n float64) {
	s.samples[""] += n
	s.samples["thread "+stack.thread] += n
	for i, frame := range stack.frames {
		name := frame[strings.LastIndexByte(frame, ':')+1:]
		s.samples[name] += n
		if i == len(stack.frames)-1 {
			s.self[name] += n
		}
	}
}

// shopProfile makes a profile of one round.
type shopProfile struct {
	*profile.Profile
	build     string
	mappings  map[string]*profile.Mapping
	locations map[string]*profile.Location
}

func newShopProfile(end time.Time, build string) *shopProfile {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	return &shopProfile{
		Profile: &profile.Profile{
			SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: shopPeriod,
			TimeNanos: end.Add(-15 * time.Second).UnixNano(), DurationNanos: int64(15 * time.Second),
		},
		build: build, mappings: map[string]*profile.Mapping{}, locations: map[string]*profile.Location{},
	}
}

func (p *shopProfile) add(process string, stack shopStack, n int64) {
	s := &profile.Sample{Value: []int64{n * shopPeriod}, Label: map[string][]string{"thread_name": {stack.thread}}}
	for i := len(stack.frames) - 1; i >= 0; i-- {
		file, name, found := strings.Cut(stack.frames[i], ":")
		if !found {
			file, name = shopProgram, stack.frames[i]
		}
		s.Location = append(s.Location, p.location(file, name))
	}
	s.Location = append(s.Location, p.location("", process))
	p.Sample = append(p.Sample, s)
}

func (p *shopProfile) location(file, name string) *profile.Location {
	key := file + ":" + name
	if l := p.locations[key]; l != nil {
		return l
	}
	f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
	l := &profile.Location{ID: f.ID, Address: f.ID * 16, Line: []profile.Line{{Function: f}}}
	if file != "" {
		l.Mapping = p.mapping(file)
	}
	p.Function, p.Location = append(p.Function, f), append(p.Location, l)
	p.locations[key] = l
	return l
}

func (p *shopProfile) mapping(file string) *profile.Mapping {
	m := p.mappings[file]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(p.Mapping) + 1), File: file, BuildID: "dddd4444", HasFunctions: true}
		if file == shopProgram {
			m.BuildID = p.build
		}
		p.mappings[file] = m
		p.Mapping = append(p.Mapping, m)
	}
	return m
}

func (p *shopProfile) bytes(t *testing.T) []byte {
	t.Helper()
	require.NoError(t, p.CheckValid())
	var data bytes.Buffer
	require.NoError(t, p.Write(&data))
	return data.Bytes()
}
