package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/pprof"
)

// waits holds the number of waits by function and length.
type waits map[string]map[time.Duration]int

// recorded returns the waits as a profile of headwater record.
func (w waits) recorded(t testing.TB) *profile.Profile {
	b := pprof.NewBuilder(pprof.Options{
		Kind: kind.OffCPU, Count: true, Period: int64(50 * time.Millisecond), Duration: time.Minute,
	})
	for name, lengths := range w {
		stack := []*pprof.Location{{Mapping: &pprof.Mapping{File: "/usr/bin/shopd"}, Lines: []pprof.Line{{Function: name}}}}
		for d, n := range lengths {
			if n > 0 {
				b.AddAt(nil, stack, pprof.Weight{Value: int64(d) * int64(n), Samples: int64(n), Largest: int64(d)}, nil)
			}
		}
	}
	p := b.Profile()
	require.NoError(t, p.CheckValid())
	return p
}

const (
	short = 10 * time.Millisecond
	long  = 10 * time.Second
)

// certain returns the names of the functions that certainly changed.
func certain(t testing.TB, per Per, base, after *profile.Profile) []string {
	o := DefaultOptions()
	o.Per = per
	names := []string{}
	for _, c := range changes(t, base, after, o).Changed {
		names = append(names, c.Name)
	}
	return names
}

// TestFewLongWaits checks that three waits count as three samples, however long they are, and however many short waits
// there are.
func TestFewLongWaits(t *testing.T) {
	rest := map[time.Duration]int{short: 3000}
	for name, test := range map[string]struct{ base, after waits }{
		"of their own":     {waits{"rest": rest}, waits{"rest": rest, "lock": {long: 3}}},
		"among short ones": {waits{"lock": {short: 1000}}, waits{"lock": {short: 1000, long: 3}}},
		"next to others": {
			waits{"rest": rest, "lock": {short: 1000}}, waits{"rest": rest, "lock": {short: 1000, long: 3}},
		},
		"that are gone":        {waits{"rest": rest, "lock": {long: 3}}, waits{"rest": rest}},
		"one that is enormous": {waits{"lock": {short: 1000}}, waits{"lock": {short: 1000, 50 * time.Second: 1}}},
	} {
		for _, per := range []Per{PerSecond, PerRun, PerCPU} {
			require.Empty(t, certain(t, per, test.base.recorded(t), test.after.recorded(t)), "%s, per %s", name, per)
		}
	}
	r := changes(t, waits{"lock": {short: 1000}}.recorded(t), waits{"lock": {short: 1000, long: 3}}.recorded(t),
		DefaultOptions())
	require.Equal(t, []int64{1000, 1003}, []int64{r.Others[0].BaseSamples, r.Others[0].NewSamples}, "samples are counted")
}

// TestManyWaits checks that changes of many waits, in number or in length, are found.
func TestManyWaits(t *testing.T) {
	base := waits{"rest": {short: 3000}, "lock": {short: 1000}}
	more := waits{"rest": {short: 3000}, "lock": {short: 1500}}
	longer := waits{"rest": {short: 3000}, "lock": {2 * short: 1000}}
	manyLong := waits{"rest": {short: 3000}, "lock": {short: 1000, long: 60}}
	for _, after := range []waits{more, longer, manyLong} {
		require.Equal(t, []string{"lock"}, certain(t, PerRun, base.recorded(t), after.recorded(t)), "%v", after)
		require.Contains(t, certain(t, PerCPU, base.recorded(t), after.recorded(t)), "lock", "%v", after)
	}
}

// TestWaitsByChance checks that two recordings of equal programs, with few long or many short waits, show no changed
// functions. The numbers of waits follow a Poisson process.
func TestWaitsByChance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	poisson := func(mean float64) (n int) {
		for at := random.ExpFloat64(); at < mean; at += random.ExpFloat64() {
			n++
		}
		return n
	}
	record := func() *profile.Profile {
		w := waits{}
		for i := range 20 {
			of := map[time.Duration]int{}
			for length := 1; length <= 4; length++ { // from 10 ms, 300 times, to 10 s, rarely
				of[time.Duration(math.Pow(10, float64(length)))*time.Millisecond] = poisson(3000 / math.Pow(10, float64(length)))
			}
			w[fmt.Sprint("f", i)] = of
		}
		return w.recorded(t)
	}
	for range 200 {
		base, after := record(), record()
		for _, per := range []Per{PerRun, PerCPU} {
			require.Empty(t, certain(t, per, base, after), per)
		}
	}
}

// TestUnknownSizes checks that all waits of a stack may be a single one if a file does not have the longest wait.
func TestUnknownSizes(t *testing.T) {
	old := func(w waits) *profile.Profile {
		p := w.recorded(t)
		for _, s := range p.Sample {
			s.NumLabel, s.NumUnit = nil, nil
		}
		return p
	}
	base, after := waits{"rest": {short: 3000}, "lock": {short: 1000}}, waits{"rest": {short: 3000}, "lock": {short: 2000}}
	require.Empty(t, certain(t, PerRun, old(base), old(after)))
	require.Empty(t, certain(t, PerRun, pprof.WithoutCount(base.recorded(t)), pprof.WithoutCount(after.recorded(t))))
	require.Equal(t, []string{"lock"}, certain(t, PerRun, base.recorded(t), after.recorded(t)))
}
