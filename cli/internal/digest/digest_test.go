package digest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/pprof"
)

// profileOf makes a profile of stacks, root first, with how many samples each has. A name with a slash is of a binary.
func profileOf(stacks map[string]int64) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7, DurationNanos: 2e9,
		Comments: []string{"headwater record: this host"},
	}
	files := map[string]*profile.Mapping{}
	for text, n := range stacks {
		s := &profile.Sample{Value: []int64{n * 1e7}}
		for name := range strings.SplitSeq(text, ";") {
			binary, function, ok := strings.Cut(name, "/")
			l := &profile.Location{ID: uint64(len(p.Location) + 1)}
			if ok && files[binary] == nil {
				files[binary] = &profile.Mapping{ID: uint64(len(files) + 1), File: "/bin/" + binary}
				p.Mapping = append(p.Mapping, files[binary])
			}
			if ok {
				name, l.Mapping = function, files[binary]
			}
			f := &profile.Function{ID: l.ID, Name: name}
			l.Line = []profile.Line{{Function: f}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			s.Location = append([]*profile.Location{l}, s.Location...)
		}
		p.Sample = append(p.Sample, s)
	}
	pprof.SetLost(p, 120, 20)
	return p
}

func shop() *profile.Profile {
	return profileOf(map[string]int64{
		"shopd;shopd/main;shopd/serve;shopd/price":               50,
		"shopd;shopd/main;shopd/audit;shopd/price":               10,
		"shopd;shopd/main;shopd/walk;shopd/walk;libc.so.6/write": 20,
		"shopd;[incomplete: no rows];libx.so/libx.so+0x12":       15,
		"cron;cron/main": 5,
	})
}

func text(t *testing.T, p *profile.Profile, lines int) string {
	t.Helper()
	d, err := Of(p)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, d.WriteText(&b, lines))
	return b.String()
}

// TestTotals: what a profile is of is said in words, also if another tool has made it.
func TestTotals(t *testing.T) {
	for of, want := range map[string]string{
		"cpu": "1.00 s of CPU time", "offcpu": "1.00 s of time off CPU", "delay": "1.00 s of delay",
	} {
		p := shop()
		p.SampleType[0].Type, p.PeriodType.Type = of, of
		require.Contains(t, text(t, p, 60), "\ntotal: "+want+"\n")
	}
}

func TestText(t *testing.T) {
	p := shop()
	p.Comments = append(p.Comments, "headwater unnamed: libx.so: it is stripped")
	require.Equal(t, `profile: this host, 2.0 s
total: 1.00 s of CPU time
completeness: samples: 100; whole stacks: 85.0%; lost samples: 20 of 120 due on the host; without a name: 15.0%
  not whole, no rows: 15.0%
  no names in libx.so (15.0%): it is stripped
functions by self (self total name binary):
   60.0%  60.0%  price  shopd
   20.0%  20.0%  write  libc.so.6
   15.0%  15.0%  libx.so+0x12
    5.0%   5.0%  main  cron
functions by total (self total name binary):
    0.0%  80.0%  main  shopd
   60.0%  60.0%  price  shopd
    0.0%  50.0%  serve  shopd
   20.0%  20.0%  write  libc.so.6
    0.0%  20.0%  walk  shopd
   15.0%  15.0%  libx.so+0x12
    0.0%  10.0%  audit  shopd
    5.0%   5.0%  main  cron
hot paths (function <- its caller <- ..., as long as one caller has more than half):
   50.0%  price <- serve <- main
   20.0%  write <- walk <- main
   15.0%  libx.so+0x12
    5.0%  main
processes:
   95.0%  shopd
    5.0%  cron
binaries (by innermost frame):
   60.0%  shopd
   20.0%  libc.so.6
   15.0%  libx.so
    5.0%  cron
`, text(t, p, 60))
}

// TestBound: a text has at most the requested number of lines, lines are only as long as names allow, and it is always
// the same.
func TestBound(t *testing.T) {
	stacks := map[string]int64{}
	for i := range 500 {
		stacks[fmt.Sprintf("proc%d;bin%d/main;bin%d/%s%d\x1b[31m\n", i, i, i, strings.Repeat("f", 3000), i)] = 1
	}
	first := text(t, profileOf(stacks), 40)
	for range 5 {
		require.Equal(t, first, text(t, profileOf(stacks), 40))
	}
	for _, lines := range []int{MinLines, 40, 100} {
		got := text(t, profileOf(stacks), lines)
		require.LessOrEqual(t, strings.Count(got, "\n"), lines)
		require.Greater(t, strings.Count(got, "\n"), lines-5)
		require.NotContains(t, got, "\x1b")
		for line := range strings.Lines(got) {
			require.Less(t, len(line), 1000)
		}
	}
}

func TestForeign(t *testing.T) {
	p := shop()
	p.Comments = nil
	for _, s := range p.Sample {
		if len(s.Location) == 3 { // the one that is not whole
			s.Location = append(s.Location[:1], s.Location[2:]...)
		}
	}
	got := text(t, p, 60)
	require.Contains(t, got, "whole stacks: unknown")
	require.Contains(t, got, "lost samples: unknown")
	require.Contains(t, got, "no names in libx.so (15.0%): the profile has no reason")
	_, err := Of(profileOf(nil))
	require.ErrorContains(t, err, "the profile has no samples")
}

func TestThrough(t *testing.T) {
	d, err := Of(shop())
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, d.WriteThrough(&b, "WAL", 60)) // a part of one function's name
	require.Contains(t, b.String(), "function: walk  shopd; self 0.0%, total 20.0%\n")
	require.Contains(t, b.String(), "callers:\n   20.0%  main  shopd\ncallees:\n   20.0%  write  libc.so.6\n")
	b.Reset()
	require.NoError(t, d.WriteThrough(&b, "price", 60))
	require.Contains(t, b.String(), "callers:\n   50.0%  serve  shopd\n   10.0%  audit  shopd\n")
	require.Contains(t, b.String(), "callees:\n   60.0%  [self]\n")
	require.Contains(t, b.String(), "most frequent way up:\n   50.0%  price <- serve <- main\n")
	b.Reset()
	require.NoError(t, d.WriteThrough(&b, "libx.so+0x12", 60))
	require.Contains(t, b.String(), "[unknown: the stack is not whole]")
	for name, want := range map[string]string{
		"": "name a function", "nothing": `no function of the profile has "nothing"`,
		"r": "3 functions have \"r\" in their names; name one of them, such as: price, serve, write",
	} {
		require.ErrorContains(t, d.WriteThrough(&b, name, 60), want)
	}
}

func TestTop(t *testing.T) {
	d, err := Of(shop())
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, d.WriteTop(&b, "binary", 2))
	require.Contains(t, b.String(), "   60.0%  shopd\n   20.0%  libc.so.6\n  and 2 more\n")
	b.Reset()
	require.NoError(t, d.WriteTop(&b, "process", 9))
	require.Contains(t, b.String(), "   95.0%  shopd\n    5.0%  cron\n")
	require.ErrorContains(t, d.WriteTop(&b, "colour", 9), `by must be function, process or binary, got "colour"`)
}
