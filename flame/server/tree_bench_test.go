package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
)

// hostMaker makes profiles of a host: stacks go the same ways to some depth, and part then.
type hostMaker struct {
	random    *rand.Rand
	functions int     // that stacks have frames of
	again     float64 // chance that a frame is the one that most stacks have there
	depth     int
}

// profile returns what a host did in an interval.
func (m *hostMaker) profile(samples int) *profile.Profile {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	p := &profile.Profile{SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 10_000_000}
	mapping := &profile.Mapping{ID: 1, Start: 1 << 20, Limit: 1 << 30, File: "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus"}
	p.Mapping = []*profile.Mapping{mapping}
	at := make([]*profile.Location, m.functions)
	location := func(n int) *profile.Location {
		if at[n] == nil {
			name := fmt.Sprintf("_ZN4tree4step%cE%ciPK9rtx_def%d", 'a'+n%26, 'a'+n%20, n)
			f := &profile.Function{ID: uint64(n + 1), Name: name, SystemName: name, StartLine: int64(n)}
			line := []profile.Line{{Function: f, Line: int64(n + n%50)}}
			at[n] = &profile.Location{ID: f.ID, Mapping: mapping, Address: 1<<20 + f.ID*64, Line: line}
			p.Function, p.Location = append(p.Function, f), append(p.Location, at[n])
		}
		return at[n]
	}
	for range samples {
		n := uint64(1)
		depth := m.depth/2 + m.random.IntN(m.depth)
		stack := make([]*profile.Location, depth)
		for i := range stack {
			way := uint64(0)
			for way < 6 && m.random.Float64() > m.again {
				way++
			}
			n = (n*6364136223846793005 + way + 1) * 0x9e3779b97f4a7c15
			stack[depth-1-i] = location(int(n>>33) % m.functions)
		}
		p.Sample = append(p.Sample, &profile.Sample{Location: stack, Value: []int64{10_000_000}})
	}
	return p
}

// BenchmarkTree requests flame graphs and tables of five minutes: for a host that runs compilers, where almost all
// stacks differ, and for one that always runs the same services. First: there has been no request before.
func BenchmarkTree(b *testing.B) {
	for name, m := range map[string]hostMaker{
		"services":  {functions: 3000, again: 0.995, depth: 30},
		"compilers": {functions: 12_000, again: 0.975, depth: 40},
	} {
		page, end := m.page(b)
		for _, path := range []string{"tree", "top"} {
			for _, first := range []bool{true, false} {
				b.Run(fmt.Sprintf("%s/%s/first=%v", name, path, first), func(b *testing.B) {
					benchmarkAnswers(b, page, func(i int) string {
						if first {
							page.DropViews()
						}
						return fmt.Sprintf("/api/%s?from=%d&to=%d", path, i+1, end.UnixMilli())
					})
				})
			}
		}
	}
}

// page returns a page with five minutes of a host.
func (m hostMaker) page(b *testing.B) (page *Page, end time.Time) {
	b.Helper()
	const samples = 2840
	m.random, end = rand.New(rand.NewPCG(1, 2)), time.Now()
	page = New(Options{Name: "x", Status: testStatus})
	for i := range 20 {
		at := end.Add(time.Duration(i-19) * 15 * time.Second)
		p := m.profile(samples)
		var data bytes.Buffer
		require.NoError(b, p.Write(&data))
		page.Add(at.Add(-15*time.Second), at, []Profile{{
			Labels: map[string]string{"service_name": "host"}, Data: data.Bytes(), Pprof: p, Samples: samples,
		}})
	}
	return page, end
}

// benchmarkAnswers asks as a browser does, each time for something else.
func benchmarkAnswers(b *testing.B, page *Page, address func(i int) string) {
	b.ReportAllocs()
	size, asked, before := 0, 0, ownCPU(b)
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, address(asked), nil)
		r.Header.Set("Accept-Encoding", "gzip")
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, r)
		require.Equal(b, http.StatusOK, answer.Code, answer.Body)
		size = answer.Body.Len()
		asked++
	}
	b.ReportMetric((ownCPU(b)-before).Seconds()*1000/float64(asked), "ms-cpu/op")
	b.ReportMetric(float64(size)/1000, "KB")
}

// BenchmarkFold measures the cost of each interval for later requests.
func BenchmarkFold(b *testing.B) {
	for name, m := range map[string]hostMaker{
		"services":  {functions: 3000, again: 0.995, depth: 30},
		"compilers": {functions: 12_000, again: 0.975, depth: 40},
	} {
		b.Run(name, func(b *testing.B) {
			m.random = rand.New(rand.NewPCG(1, 2))
			p, names := m.profile(2840), shownNames{}
			before, n := ownCPU(b), 0
			var f *tree.Folded
			for b.Loop() {
				var err error
				f, err = tree.Fold(p, names.shownName)
				require.NoError(b, err)
				n++
			}
			b.ReportMetric((ownCPU(b)-before).Seconds()*1000/float64(n), "ms-cpu/op")
			b.ReportMetric(float64(f.Nodes()), "nodes")
			b.ReportMetric(float64(f.Size())/1000, "KB")
		})
	}
}

// ownCPU returns the CPU time of this process, which is more reliable than wall-clock time if other processes use the
// CPUs too.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
