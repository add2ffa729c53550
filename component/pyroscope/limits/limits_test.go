package limits

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// madeProfile returns a profile of a number of samples, each of a stack of its own
// functions of that depth.
func madeProfile(samples, depth, nameSize int) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     10, TimeNanos: 1_700_000_000_000_000_000, DurationNanos: 5,
		Mapping: []*profile.Mapping{{ID: 1, Start: 4096, Limit: 8192, File: "/bin/x", BuildID: "abcd"}},
	}
	random := rand.New(rand.NewPCG(1, 2))
	function := func(name string) *profile.Location {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
		p.Function = append(p.Function, f)
		l := &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: p.Mapping[0],
			Address: uint64(4096 + len(p.Location)), Line: []profile.Line{{Function: f, Line: 3}}}
		p.Location = append(p.Location, l)
		return l
	}
	var shared []*profile.Location
	for i := range depth - 1 {
		shared = append(shared, function(fmt.Sprint("f", i)))
	}
	for i := range samples {
		name := make([]byte, nameSize)
		for k := range name {
			name[k] = byte('a' + random.IntN(26))
		}
		leaf := function(fmt.Sprint("leaf", i, string(name)))
		p.Sample = append(p.Sample, &profile.Sample{
			Location: append([]*profile.Location{leaf}, shared...),
			Value:    []int64{int64(i + 1)},
			Label:    map[string][]string{"thread": {fmt.Sprint(i % 7)}},
		})
	}
	return p
}

func encodeProfile(t testing.TB, p *profile.Profile) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, p.Write(&out))
	return out.Bytes()
}

// content is what a profile says, by stack and labels.
func content(t *testing.T, profiles ...[]byte) map[string]int64 {
	t.Helper()
	sum := map[string]int64{}
	for _, raw := range profiles {
		p, err := profile.ParseData(raw)
		require.NoError(t, err)
		for _, sample := range p.Sample {
			var key strings.Builder
			for _, l := range sample.Location {
				fmt.Fprint(&key, l.Address, l.Line[0].Function.Name, l.Line[0].Line)
				if l.Mapping != nil {
					key.WriteString(l.Mapping.BuildID)
				}
			}
			fmt.Fprint(&key, sample.Label)
			sum[key.String()] += sample.Value[0]
		}
	}
	return sum
}

func TestSplit(t *testing.T) {
	tests := map[string]struct {
		profile *profile.Profile
		limits  Limits
		parts   int
	}{
		"all is well":      {madeProfile(100, 5, 10), Server(), 1},
		"samples":          {madeProfile(100, 5, 10), Limits{1 << 20, 30, 100}, 4},
		"bytes":            {madeProfile(200, 5, 1000), Limits{60_000, 1000, 100}, 4},
		"Pyroscope's own":  {madeProfile(20_000, 10, 40), Server(), 2},
		"one sample alone": {madeProfile(1, 5, 10_000), Limits{1000, 100, 100}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			raw := encodeProfile(t, test.profile)
			parts, err := test.limits.Split(raw, time.Now())
			require.NoError(t, err)
			require.Len(t, parts, test.parts)
			require.Equal(t, content(t, raw), content(t, parts...))
			if test.parts == 1 {
				return
			}
			times := map[int64]bool{}
			for _, part := range parts {
				plain, err := gunzip(part)
				require.NoError(t, err)
				require.True(t, test.limits.fitsPlain(plain))
				p, err := profile.ParseData(part)
				require.NoError(t, err)
				require.Equal(t, "cpu/nanoseconds 10 cpu/nanoseconds", fmt.Sprintf("%s/%s %d %s/%s",
					p.SampleType[0].Type, p.SampleType[0].Unit, p.Period, p.PeriodType.Type, p.PeriodType.Unit))
				times[p.TimeNanos/1e6] = true
			}
			require.Len(t, times, test.parts, "a millisecond each")
			require.True(t, times[test.profile.TimeNanos/1e6])
		})
	}
}

func TestSplitDepth(t *testing.T) {
	deep := madeProfile(3, 1500, 3)
	deep.TimeNanos = 0
	raw := encodeProfile(t, deep)
	parts, err := Server().Split(raw, time.UnixMilli(1_700_000_000_123))
	require.NoError(t, err)
	require.Len(t, parts, 1)
	p, err := profile.ParseData(parts[0])
	require.NoError(t, err)
	require.Len(t, p.Sample, 3)
	for i, sample := range p.Sample {
		require.Len(t, sample.Location, 1000)
		name := func(at int) string { return sample.Location[at].Line[0].Function.Name }
		require.Contains(t, name(0), fmt.Sprint("leaf", i))
		require.Equal(t, "f498", name(499))
		require.Equal(t, "[501 frames cut: Pyroscope keeps 1,000]", name(500))
		require.Equal(t, "f1000", name(501))
		require.Equal(t, "f1498", name(999))
	}
}

// A stack that is too big by itself is cut until it fits.
func TestSplitHugeStack(t *testing.T) {
	p := madeProfile(1, 1, 1)
	leaf := p.Sample[0].Location[0]
	for i := range 900 {
		f := &profile.Function{ID: uint64(10 + i), Name: fmt.Sprint(i, strings.Repeat("x", 6000))}
		l := &profile.Location{ID: uint64(10 + i), Mapping: p.Mapping[0], Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample[0].Location = append(p.Sample[0].Location, l)
	}
	parts, err := Server().Split(encodeProfile(t, p), time.Now())
	require.NoError(t, err)
	require.Len(t, parts, 1)
	plain, err := gunzip(parts[0])
	require.NoError(t, err)
	require.True(t, Server().fitsPlain(plain))
	short, err := profile.ParseData(parts[0])
	require.NoError(t, err)
	stack := short.Sample[0].Location
	require.Len(t, stack, 225)
	require.Equal(t, leaf.Line[0].Function.Name, stack[0].Line[0].Function.Name)
	require.Equal(t, "[677 frames cut: Pyroscope takes 1,900,000 bytes]", stack[113-1].Line[0].Function.Name,
		"901 frames, 224 are left")
	require.True(t, strings.HasPrefix(stack[224].Line[0].Function.Name, "899x"))
	require.NotNil(t, stack[112].Mapping, "Pyroscope drops samples whose locations have none")
}

// What cannot be read is the server's to judge.
func TestSplitOddProfiles(t *testing.T) {
	good := encodeProfile(t, madeProfile(50, 20, 3))
	plain, err := gunzip(good)
	require.NoError(t, err)
	tiny := Limits{500, 3, 2}
	for _, raw := range [][]byte{nil, []byte("x"), []byte("not a profile"), good[:len(good)/2], plain[:len(plain)-1],
		{0x1f, 0x8b}, {0x1f, 0x8b, 9, 9}} {
		parts, err := tiny.Split(raw, time.Now())
		require.NoError(t, err)
		require.Equal(t, [][]byte{raw}, parts)
	}
	parts, err := tiny.Split(plain, time.Now())
	require.NoError(t, err)
	require.Greater(t, len(parts), 10, "uncompressed is as good")
}

func TestSplitRefusesBombs(t *testing.T) {
	var bomb bytes.Buffer
	out := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 70 {
		_, err := out.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, out.Close())
	_, err := Server().Split(bomb.Bytes(), time.Now())
	require.EqualError(t, err, "profile of more than 64 MiB uncompressed")
}

func FuzzSplit(f *testing.F) {
	plain, err := gunzip(encodeProfile(f, madeProfile(20, 5, 3)))
	require.NoError(f, err)
	f.Add(plain)
	f.Add([]byte{0x12, 0x80, 0x80, 0x80, 0x80, 0x10})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1<<16 {
			return
		}
		parts, err := Limits{200, 3, 2}.Split(raw, time.Unix(1, 0))
		if err != nil || len(parts) == 0 {
			t.Errorf("%d parts: %v", len(parts), err)
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	for _, samples := range []int{100, 1000, 10_000} {
		raw := encodeProfile(b, madeProfile(samples, 30, 20))
		b.Run(fmt.Sprintf("samples=%d,bytes=%d", samples, len(raw)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Server().Split(raw, time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
