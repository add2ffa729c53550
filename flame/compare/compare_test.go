package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/pprof"
)

const period = 10_000_000 // ns

// profileOf returns a profile of a number of seconds with samples for the given functions, all called by main.
func profileOf(seconds int64, samples map[string]int64) *profile.Profile {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: period, DurationNanos: seconds * 1e9,
	}
	m := &profile.Mapping{ID: 1, File: "/usr/bin/shopd"}
	p.Mapping = []*profile.Mapping{m}
	location := func(name string) *profile.Location {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
		l := &profile.Location{ID: f.ID, Mapping: m, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		return l
	}
	main := location("main")
	for name, n := range samples {
		p.Sample = append(p.Sample, &profile.Sample{
			Location: []*profile.Location{location(name), main}, Value: []int64{n * period},
		})
	}
	return p
}

func changes(t testing.TB, base, after *profile.Profile, o Options) *Report {
	r, err := Profiles([]*profile.Profile{base}, []*profile.Profile{after}, o)
	require.NoError(t, err)
	return r
}

func TestProfiles(t *testing.T) {
	base := profileOf(40, map[string]int64{"work": 1000, "other": 3000, "gone": 90, "shopd+0x1240": 500})
	after := profileOf(20, map[string]int64{"work": 650, "other": 1500, "fresh": 60, "shopd+0x1260": 250})
	r := changes(t, base, after, DefaultOptions())
	require.Equal(t, "seconds", r.Unit)
	require.Equal(t, int64(4590), r.Base.Samples)
	require.Equal(t, 40.0, r.Base.Seconds)
	require.InDelta(t, 45.9, r.Base.Value, 1e-9)
	require.Len(t, r.Changed, 3)

	work := r.Changed[0]
	require.Equal(t, "work", work.Name)
	require.Equal(t, "shopd", work.Binary)
	require.InDelta(t, 0.25, work.Base, 1e-9)
	require.InDelta(t, 0.325, work.New, 1e-9)
	require.Equal(t, []int64{1000, 650}, []int64{work.BaseSamples, work.NewSamples})
	require.True(t, work.Low > 1.05 && work.Low < 1.3 && *work.High > 1.3, "%v", work)

	require.Equal(t, "fresh", r.Changed[1].Name)
	require.Nil(t, r.Changed[1].High)
	require.Equal(t, "gone", r.Changed[2].Name)
	require.Zero(t, r.Changed[2].Low)
	require.Less(t, *r.Changed[2].High, 0.5)

	names := []string{}
	for _, c := range r.Others {
		names = append(names, c.Name)
	}
	require.ElementsMatch(t, []string{"other", "(functions without a name)"}, names) // main has no samples of its own
}

// TestPer checks that Per determines which profiles are equal.
func TestPer(t *testing.T) {
	base := profileOf(10, map[string]int64{"work": 10_000, "other": 10_000})
	after := profileOf(20, map[string]int64{"work": 20_000, "other": 20_000})
	for per, changed := range map[Per]int{PerSecond: 0, PerRun: 2, PerCPU: 0} {
		o := DefaultOptions()
		o.Per = per
		require.Len(t, changes(t, base, after, o).Changed, changed, per)
	}
	o := DefaultOptions()
	o.Total = true
	o.Per = PerRun
	require.Equal(t, "main", changes(t, base, after, o).Changed[0].Name)
}

// TestRates checks that profiles with different sample rates are compared by time.
func TestRates(t *testing.T) {
	base := profileOf(10, map[string]int64{"work": 10_000})
	after := profileOf(10, map[string]int64{"work": 10_000})
	after.Period /= 10 // the same time in ten times as many samples
	r := changes(t, base, after, DefaultOptions())
	require.Empty(t, r.Changed)
	require.Equal(t, int64(100_000), r.Others[0].NewSamples)
	require.True(t, r.Others[0].Low < 1 && *r.Others[0].High > 1, "%v", r.Others[0])
}

// TestShareBounds compares with 95 % bounds from textbooks.
func TestShareBounds(t *testing.T) {
	for _, test := range []struct {
		k, n      int64
		low, high float64
	}{
		{0, 10, 0, 0.3085}, {1, 10, 0.0025, 0.4450}, {5, 20, 0.0866, 0.4910}, {10, 10, 0.6915, 1}, {50, 100, 0.3983, 0.6017},
	} {
		low, high := shareBounds(float64(test.k), float64(test.n-test.k), 0.05)
		require.InDelta(t, test.low, low, 5e-5, "%d of %d", test.k, test.n)
		require.InDelta(t, test.high, high, 5e-5, "%d of %d", test.k, test.n)
	}
}

// TestChance checks that profiles that differ only by chance show almost no changed functions, and that a function that
// is a fifth slower is the first change.
func TestChance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	run := func(slower float64) *profile.Profile {
		samples := map[string]int64{}
		for i := range 200 { // from 3 samples to 30,000
			mean := 30_000.0 / float64(i+1) / float64(i%50+1)
			if i == 1 {
				mean *= slower
			}
			samples[fmt.Sprint("f", i)] = max(0, int64(mean+random.NormFloat64()*math.Sqrt(mean)))
		}
		return profileOf(60, samples)
	}
	o := DefaultOptions()
	o.AtLeast = 0
	for range 20 {
		require.Empty(t, changes(t, run(1), run(1), o).Changed)
		r := changes(t, run(1), run(1.2), DefaultOptions())
		require.Len(t, r.Changed, 1)
		require.Equal(t, "f1", r.Changed[0].Name)
	}
}

// TestSpread checks that runs with a spread of 10 % do not show a change of 5 %, which single profiles would show.
func TestSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	runs := func(slower float64) (out []*profile.Profile) {
		for range 8 {
			samples := map[string]int64{"rest": 100_000}
			for i := range 50 {
				mean := 20_000 * (1 + 0.1*random.NormFloat64())
				if i == 7 {
					mean *= slower
				}
				samples[fmt.Sprint("f", i)] = int64(mean + random.NormFloat64()*math.Sqrt(mean))
			}
			out = append(out, profileOf(60, samples))
		}
		return out
	}
	base, after := runs(1), runs(1)
	require.NotEmpty(t, changes(t, base[0], after[0], DefaultOptions()).Changed)
	r, err := Profiles(base, after, DefaultOptions())
	require.NoError(t, err)
	require.InDelta(t, 0.1, *r.Spread, 0.05)
	require.Empty(t, r.Changed)
	r, err = Profiles(base, runs(1.6), DefaultOptions())
	require.NoError(t, err)
	require.Len(t, r.Changed, 1)
	require.Equal(t, "f7", r.Changed[0].Name)
}

// TestBurst checks that work of the kernel in only one run of three is no change, however many samples it has. A
// function that is stable within each side is a change.
func TestBurst(t *testing.T) {
	runs := func(burst, slower int64) (out []*profile.Profile) {
		for i := range int64(3) {
			samples := map[string]int64{"rest": 15_000 + 40*i, "price": slower + 11*i, "copy": 3 + i}
			if i == 1 {
				samples["copy"] += burst
			}
			out = append(out, profileOf(60, samples))
		}
		return out
	}
	require.NotEmpty(t, changes(t, runs(60, 2000)[1], runs(0, 2000)[1], DefaultOptions()).Changed)
	r, err := Profiles(runs(60, 2000), runs(0, 2400), DefaultOptions())
	require.NoError(t, err)
	require.Len(t, r.Changed, 1)
	require.Equal(t, "price", r.Changed[0].Name)
}

// TestInterrupts checks that samples in interrupts are left out.
func TestInterrupts(t *testing.T) {
	base := profileOf(10, map[string]int64{"work": 1000})
	after := profileOf(10, map[string]int64{"work": 1000, "handle_softirqs": 300, "asm_sysvec_call_function": 300})
	r := changes(t, base, after, DefaultOptions())
	require.Empty(t, r.Changed)
	require.Equal(t, int64(1000), r.New.Samples)
}

// TestRenamed checks that builds with different names are compared with each other.
func TestRenamed(t *testing.T) {
	base := profileOf(10, map[string]int64{"work": 1000})
	after := profileOf(10, map[string]int64{"work": 1000, "strtol": 1})
	after.Mapping[0].File = "/tmp/shopd.new"
	after.Mapping = append(after.Mapping, &profile.Mapping{ID: 2, File: "/usr/lib/libc.so.6"})
	for _, l := range after.Location {
		if l.Line[0].Function.Name == "strtol" {
			l.Mapping = after.Mapping[1]
		}
	}
	r := changes(t, base, after, DefaultOptions())
	require.Empty(t, r.Changed)
	binaries := map[string]string{}
	for _, c := range r.Others {
		binaries[c.Name] = c.Binary
	}
	require.Equal(t, map[string]string{"work": "shopd.new", "strtol": "libc.so.6"}, binaries)
}

func TestRefused(t *testing.T) {
	good := profileOf(1, map[string]int64{"work": 1})
	other := profileOf(1, map[string]int64{"work": 1})
	other.SampleType = []*profile.ValueType{{Type: "samples", Unit: "count"}}
	for want, test := range map[string]struct {
		base, after *profile.Profile
		o           Options
	}{
		`per "day" is unknown, valid values are: second, run, cpu, count=N`: {good, good, Options{Per: "day"}},
		"confidence must be between 0 and 1, got 1": {good, good,
			Options{Per: PerRun, Confidence: 1}},
		"new profile: it has no duration": {good, profileOf(0, nil), DefaultOptions()},
		"base profile: it has no samples": {profileOf(1, nil), good,
			Options{Per: PerCPU, Confidence: 0.9}},
		"the base profile counts seconds and the new one count": {good, other, DefaultOptions()},
	} {
		_, err := Profiles([]*profile.Profile{test.base}, []*profile.Profile{test.after}, test.o)
		require.ErrorContains(t, err, want)
	}
}

// TestLost checks that bounds allow for lost samples, and that a side that lost too many is refused by name.
func TestLost(t *testing.T) {
	base := profileOf(10, map[string]int64{"work": 100_000, "other": 100_000})
	after := profileOf(10, map[string]int64{"work": 110_000, "other": 100_000})
	r := changes(t, base, after, DefaultOptions())
	require.Nil(t, r.Base.Lost)
	require.Len(t, r.Changed, 1)
	require.InDelta(t, 1.05, r.All.New/r.All.Base, 1e-9)
	require.True(t, r.All.Low < 1.05 && *r.All.High > 1.05, "%v", r.All)
	low, high := r.Changed[0].Low, *r.Changed[0].High

	pprof.SetLost(base, 1000, 40) // below AtLeast, so it has no effect
	pprof.SetLost(after, 1000, 30)
	require.Len(t, changes(t, base, after, DefaultOptions()).Changed, 1)

	pprof.SetLost(base, 1000, 100)
	pprof.SetLost(after, 1000, 20)
	r = changes(t, base, after, DefaultOptions())
	require.Equal(t, []float64{0.1, 0.02}, []float64{*r.Base.Lost, *r.New.Lost})
	require.Empty(t, r.Changed)
	require.Equal(t, "work", r.Others[0].Name)
	require.InDelta(t, low*0.95, r.Others[0].Low, 1e-9)
	require.InDelta(t, high, *r.Others[0].High, 1e-9)

	pprof.SetLost(after, 1000, 300)
	_, err := Profiles([]*profile.Profile{base}, []*profile.Profile{after}, DefaultOptions())
	require.ErrorContains(t, err, "new profile: its host lost 30.0 % of the samples, more than 25 %")
}

// TestIncomplete checks that remarks at the ends of stacks count as no functions, and that bounds of functions with
// their callees allow for incomplete stacks.
func TestIncomplete(t *testing.T) {
	base := profileOf(10, map[string]int64{"work": 90_000, "other": 100_000, "[incomplete: no_row in libc.so.6]": 10_000})
	after := profileOf(10, map[string]int64{
		"work": 84_000, "other": 100_000, "[incomplete: page_missing]": 11_000, "[guessed: frame_pointer]": 5_000,
	})
	o := DefaultOptions()
	o.Per = PerSecond
	r := changes(t, base, after, o)
	require.Equal(t, []float64{0.05, 0.08}, []float64{r.Base.Incomplete, r.New.Incomplete})
	require.Len(t, r.Changed, 1)
	require.Equal(t, "work", r.Changed[0].Name)
	require.Len(t, r.Others, 1)
	o.Total = true
	r = changes(t, base, after, o)
	require.Empty(t, r.Changed, "work may be the missing caller of 8 %")
	require.Len(t, r.Others, 3) // with main, which calls both
}

// TestHiddenCaller checks that a function that is rare in complete stacks counts as a possible missing caller of all
// incomplete stacks which only one side has.
func TestHiddenCaller(t *testing.T) {
	o := DefaultOptions()
	o.Total = true
	const rare = "Interpreter"
	base := profileOf(10, map[string]int64{"work": 85_000, rare: 300, "[incomplete: no_row in libjvm.so]": 15_000})
	after := profileOf(10, map[string]int64{"work": 94_000, rare: 6_300})
	names := func(base, after *profile.Profile) (changed []string) {
		for _, change := range changes(t, base, after, o).Changed {
			changed = append(changed, change.Name)
		}
		return changed
	}
	require.NotContains(t, names(base, after), rare, "it may be in 15 % of the stacks of the base")
	require.NotContains(t, names(after, base), rare, "it may be in 15 % of the new stacks")
	complete := profileOf(10, map[string]int64{"work": 85_000, rare: 300, "other": 15_000})
	require.Contains(t, names(complete, after), rare)
	both := profileOf(10, map[string]int64{"work": 79_000, rare: 6_300, "[incomplete: no_row in libjvm.so]": 15_000})
	require.Contains(t, names(base, both), rare, "both sides lack the same")
}

// TestUnreadMethods checks that methods of Java which were not read in time count as missing, not as a function.
func TestUnreadMethods(t *testing.T) {
	profile := func(unread, all int64) *profile.Profile {
		p := profileOf(10, map[string]int64{"work": all - unread, "Interpreter": unread})
		p.Mapping = append(p.Mapping, &profile.Mapping{ID: 2, File: "[hotspot]"})
		for _, l := range p.Location {
			if l.Line[0].Function.Name == "Interpreter" {
				l.Mapping = p.Mapping[1]
			}
		}
		return p
	}
	for _, total := range []bool{false, true} {
		o := DefaultOptions()
		o.Total = total
		r := changes(t, profile(200, 100_000), profile(8_000, 100_000), o)
		require.Empty(t, r.Changed)
		require.NotEmpty(t, r.Others)
		for _, c := range r.Others {
			require.NotEqual(t, "Interpreter", c.Name)
		}
	}
}

// TestIdle checks that intervals without samples count as time.
func TestIdle(t *testing.T) {
	busy := func() *Run {
		r, err := NewRun(profileOf(10, map[string]int64{"work": 1000}), false)
		require.NoError(t, err)
		return r
	}
	r, err := Runs([]*Run{busy(), Idle(10, "seconds")}, []*Run{busy(), busy()}, DefaultOptions())
	require.NoError(t, err)
	require.InDelta(t, 2, r.Others[0].New/r.Others[0].Base, 1e-9)
	require.Equal(t, 20.0, r.Base.Seconds)
	_, err = Runs([]*Run{busy()}, nil, DefaultOptions())
	require.ErrorContains(t, err, "new profile: there is no profile")
}

// TestRuntimes checks that a function of a language is one function, whether interpreted or compiled and in any version
// of the runtime, and that a function of a file with the same name is another function.
func TestRuntimes(t *testing.T) {
	in := func(p *profile.Profile, names ...string) *profile.Profile {
		for i, name := range names {
			p.Mapping = append(p.Mapping, &profile.Mapping{ID: uint64(i + 2), File: name})
		}
		for i, l := range p.Location {
			if l.Line[0].Function.Name == "Shop.price" {
				l.Mapping = p.Mapping[1+i%len(names)]
			}
		}
		return p
	}
	samples := map[string]int64{"Shop.price": 1000, "work": 1000}
	base, after := profileOf(10, samples), profileOf(10, samples)
	for _, p := range []*profile.Profile{base, after} {
		p.Sample = append(p.Sample, profileOf(10, samples).Sample...)
	}
	base, after = base.Compact(), after.Compact()
	r := changes(t, in(base, "[jit]", "[java 17]"), in(after, "[java 21]", "[jit]"), DefaultOptions())
	require.Empty(t, r.Changed)
	binaries := map[string]string{}
	for _, c := range r.Others {
		binaries[c.Name] = c.Binary
	}
	require.Equal(t, map[string]string{"Shop.price": "[runtime]", "work": "shopd"}, binaries)
	for _, c := range r.Others {
		require.InDelta(t, c.Base, c.New, 1e-9, c.Name)
	}
}
