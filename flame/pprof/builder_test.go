package pprof

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

var collected = time.Unix(1_800_000_000, 123_000_000)

func testOptions() Options {
	return Options{Period: 10_309_278, Time: collected, Duration: 15 * time.Second}
}

// named returns a location in a mapping of its own file.
func named(file, function string, address uint64) *Location {
	return &Location{
		Mapping: &Mapping{File: file, BuildID: "abcdef0123", Start: 0x1000, Limit: 0x9000, Offset: 0x1000},
		Address: address,
		Lines:   []Line{{Function: function}},
	}
}

// Profiles returns the profile, if there is one.
func (b *Builder) Profiles() []*profile.Profile {
	if p := b.Profile(); p != nil {
		return []*profile.Profile{p}
	}
	return nil
}

// roundTrip encodes profiles and reads them back with google/pprof.
func roundTrip(t *testing.T, profiles []*profile.Profile) []*profile.Profile {
	t.Helper()
	var back []*profile.Profile
	for _, p := range profiles {
		require.NoError(t, p.CheckValid())
		encoded, err := Encode(p)
		require.NoError(t, err)
		parsed, err := profile.ParseData(encoded)
		require.NoError(t, err)
		back = append(back, parsed)
	}
	return back
}

// stacks returns the samples of profiles as root;...;leaf with their values.
func stacks(profiles []*profile.Profile) map[string]int64 {
	found := map[string]int64{}
	for _, p := range profiles {
		for _, s := range p.Sample {
			var names []string
			for i := len(s.Location) - 1; i >= 0; i-- {
				lines := s.Location[i].Line
				for j := len(lines) - 1; j >= 0; j-- {
					names = append(names, lines[j].Function.Name)
				}
			}
			found[strings.Join(names, ";")] += s.Value[0]
		}
	}
	return found
}

func TestProfile(t *testing.T) {
	libc, app := named("/lib/libc.so.6", "write", 0x2345), named("/bin/app", "main", 0x1234)
	comm := pseudoFrame("app")
	b := NewBuilder(testOptions())
	b.Add([]*Location{libc, app, comm}, 10, nil)
	b.Add([]*Location{libc, app, comm}, 5, nil)
	b.Add([]*Location{app, comm}, 1, nil)
	b.Add([]*Location{named("/bin/app", "main", 0x1234), comm}, 2, nil) // equal content, another pointer

	profiles := roundTrip(t, b.Profiles())
	require.Len(t, profiles, 1)
	p := profiles[0]
	require.Equal(t, map[string]int64{"app;main;write": 15, "app;main": 3}, stacks(profiles))
	require.Len(t, p.Sample, 2)
	require.Len(t, p.Location, 3)
	require.Len(t, p.Function, 3)
	require.Len(t, p.Mapping, 3)
	require.Equal(t, "cpu", p.SampleType[0].Type)
	require.Equal(t, "nanoseconds", p.SampleType[0].Unit)
	require.Equal(t, "cpu", p.PeriodType.Type)
	require.Equal(t, "nanoseconds", p.PeriodType.Unit)
	require.EqualValues(t, 10_309_278, p.Period)
	require.Equal(t, collected.UnixNano(), p.TimeNanos)
	require.EqualValues(t, 15*time.Second, p.DurationNanos)

	m := p.Mapping[0]
	require.Equal(t, "/lib/libc.so.6", m.File)
	require.Equal(t, "abcdef0123", m.BuildID)
	require.Equal(t, []uint64{0x1000, 0x9000, 0x1000}, []uint64{m.Start, m.Limit, m.Offset})
	require.True(t, m.HasFunctions)
	require.False(t, m.HasFilenames || m.HasLineNumbers || m.HasInlineFrames)
	require.EqualValues(t, 0x2345, p.Location[0].Address)
	for _, l := range p.Location {
		require.NotNil(t, l.Mapping, "Pyroscope drops samples whose locations have no mapping")
	}
}

func TestNothingAdded(t *testing.T) {
	require.Empty(t, NewBuilder(testOptions()).Profiles())
	b := NewBuilder(testOptions())
	b.Add([]*Location{pseudoFrame("x")}, 0, nil)
	b.Add([]*Location{pseudoFrame("x")}, -1, nil)
	require.Empty(t, b.Profiles())
}

func TestStackWithoutFrames(t *testing.T) {
	b := NewBuilder(testOptions())
	b.Add(nil, 3, nil)
	b.Add([]*Location{}, 4, nil)
	b.Add([]*Location{{Lines: []Line{{}}}}, 1, nil)
	require.Equal(t, map[string]int64{"[unknown]": 8}, stacks(roundTrip(t, b.Profiles())))
}

func TestInlinedAndUnnamed(t *testing.T) {
	file := &Mapping{File: "/bin/app", BuildID: "ab"}
	inlined := &Location{Mapping: file, Address: 1, Lines: []Line{
		{Function: "inner()", SystemName: "_Z5innerv", File: "a.cc", Line: 3},
		{Function: "outer", File: "a.cc", Line: 9},
	}}
	unnamed := &Location{Mapping: file, Address: 2}
	b := NewBuilder(testOptions())
	b.Add([]*Location{inlined, unnamed}, 1, nil)
	p := roundTrip(t, b.Profiles())[0]

	require.Equal(t, map[string]int64{"outer;inner()": 1}, stacks([]*profile.Profile{p}))
	require.Equal(t, "_Z5innerv", p.Location[0].Line[0].Function.SystemName)
	require.Equal(t, "outer", p.Location[0].Line[1].Function.SystemName)
	require.EqualValues(t, 9, p.Location[0].Line[1].Line)
	with, without := p.Location[0].Mapping, p.Location[1].Mapping
	require.True(t, with.HasFunctions && with.HasFilenames && with.HasLineNumbers && with.HasInlineFrames)
	require.False(t, without.HasFunctions, "the server is to look for this location's name")
	require.Equal(t, with.File, without.File)
}

func TestLabels(t *testing.T) {
	stack := []*Location{pseudoFrame("a")}
	b := NewBuilder(testOptions())
	b.Add(stack, 1, []Label{{Key: "comm", Text: "x"}, {Key: "pid", Number: 7}})
	b.Add(stack, 1, []Label{{Key: "comm", Text: "x"}, {Key: "pid", Number: 7}})
	b.Add(stack, 1, []Label{{Key: "comm", Text: "x"}, {Key: "pid", Number: 8, NumUnit: "id"}})
	b.Add(stack, 1, []Label{{Key: "comm", Text: "xpid"}})
	b.Add(stack, 1, []Label{{Key: "commx", Text: "pid"}})
	p := roundTrip(t, b.Profiles())[0]
	require.Len(t, p.Sample, 4)
	require.Equal(t, []int64{2}, p.Sample[0].Value)
	require.Equal(t, map[string][]string{"comm": {"x"}}, p.Sample[0].Label)
	require.Equal(t, map[string][]int64{"pid": {7}}, p.Sample[0].NumLabel)
	require.Equal(t, map[string][]string{"pid": {"id"}}, p.Sample[1].NumUnit)
}

// Every string in the string table is valid UTF-8, printable, and of bounded length.
func TestTextIsClean(t *testing.T) {
	dirty := "a\xff\xfeb\x1b]0;OWNED\a\n\u202e" + strings.Repeat("é", maxText)
	b := NewBuilder(testOptions())
	b.Add([]*Location{{
		Mapping: &Mapping{File: dirty, BuildID: "12zz"},
		Lines:   []Line{{Function: dirty, SystemName: "s" + dirty, File: "f" + dirty}},
	}}, 1, []Label{{Key: "k\xff", Text: dirty}, {Key: "n\xff", Number: 1, NumUnit: "u\xff"}})
	p := roundTrip(t, b.Profiles())[0]

	texts := []string{p.Mapping[0].File, p.Function[0].Name, p.Function[0].SystemName, p.Function[0].Filename}
	for k, v := range p.Sample[0].Label {
		texts = append(texts, k, v[0])
	}
	for k, v := range p.Sample[0].NumUnit {
		texts = append(texts, k, v[0])
	}
	require.Len(t, texts, 8)
	for _, s := range texts {
		require.True(t, utf8.ValidString(s), "%.20q", s)
		require.LessOrEqual(t, len(s), maxText)
		require.False(t, strings.ContainsAny(s, "\x1b\a\n\u202e"), "%.20q", s)
	}
	require.Empty(t, p.Mapping[0].BuildID)
	require.True(t, strings.HasPrefix(p.Function[0].Name, "a?b?]0;OWNED? ?é"))
	require.True(t, strings.HasSuffix(p.Function[0].Name, "é..."), "cut between two letters")
}

func TestCleanBuildID(t *testing.T) {
	for in, want := range map[string]string{"": "", "00ffAB": "00ffAB", "ab/cd": "", "go:x": "", "zz": ""} {
		require.Equal(t, want, cleanBuildID(in))
	}
}

func encodedSize(t testing.TB, p *profile.Profile) int {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, p.WriteUncompressed(&out))
	return out.Len()
}

// Stacks of any depth and number are whole, and in one profile.
func TestDeepStacks(t *testing.T) {
	var deep []*Location
	want := map[string]int64{}
	var names []string
	for i := range 3000 { // leaf first
		deep = append(deep, pseudoFrame(fmt.Sprintf("f%04d", i)))
		names = append([]string{fmt.Sprintf("f%04d", i)}, names...)
	}
	b := NewBuilder(testOptions())
	for _, depth := range []int{1000, 1024, 1200, 3000} {
		b.Add(deep[:depth], int64(depth), nil)
		want[strings.Join(names[len(names)-depth:], ";")] = int64(depth)
	}
	for i := range 40_000 {
		b.Add([]*Location{pseudoFrame(fmt.Sprint(i)), deep[7]}, 1, nil)
		want[fmt.Sprint("f0007;", i)] = 1
	}
	require.Equal(t, want, stacks(roundTrip(t, b.Profiles())))
}

func randomLocations(random *rand.Rand, count int) []*Location {
	mappings := make([]*Mapping, 50)
	for i := range mappings {
		mappings[i] = &Mapping{File: fmt.Sprintf("/usr/lib/lib%d.so", i), BuildID: fmt.Sprintf("%040x", i),
			Limit: 1 << 40}
	}
	locations := make([]*Location, count)
	for i := range locations {
		l := &Location{Mapping: mappings[random.IntN(len(mappings))], Address: random.Uint64()}
		for range 1 + random.IntN(2) {
			name := strings.Repeat("n", random.IntN(60)) + fmt.Sprint(random.IntN(count))
			l.Lines = append(l.Lines, Line{Function: name, SystemName: "_" + name,
				File: fmt.Sprint("f", random.IntN(100), ".c"), Line: random.Int64N(100_000)})
		}
		locations[i] = l
	}
	return locations
}

// Times of one series are unique over builders that share a clock, to the millisecond, and in order. Another series has
// its own times.
func TestClock(t *testing.T) {
	clock := &Clock{}
	unique := func(series string, at time.Time) time.Duration {
		opts := testOptions()
		opts.Clock, opts.Series, opts.Time = clock, series, at
		b := NewBuilder(opts)
		b.Add([]*Location{pseudoFrame("a")}, 1, nil)
		return time.Duration(b.Profiles()[0].TimeNanos - collected.UnixNano())
	}
	for i := range 3 {
		require.Equal(t, time.Duration(i)*time.Millisecond, unique("a", collected.Add(time.Duration(i))))
	}
	require.Zero(t, unique("b", collected))
	require.Equal(t, time.Second, unique("a", collected.Add(time.Second)))
	require.Equal(t, time.Second+time.Millisecond, unique("a", collected))
}

// Another reader can read the encoded profile.
func TestGoToolPprof(t *testing.T) {
	b := NewBuilder(testOptions())
	b.Add([]*Location{named("/no/such/libc.so.6", "write", 0x2345), named("/no/such/app", "main", 0x1234),
		pseudoFrame("app")}, 2e9, []Label{{Key: "comm", Text: "app"}})
	b.Add([]*Location{named("/no/such/app", "main", 0x1234), pseudoFrame("app")}, 1e9, nil)
	encoded, err := Encode(b.Profiles()[0])
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "cpu.pb.gz")
	require.NoError(t, os.WriteFile(path, encoded, 0o600))

	top, err := exec.Command("go", "tool", "pprof", "-symbolize=none", "-top", path).CombinedOutput()
	require.NoError(t, err, string(top))
	for _, want := range []string{"Type: cpu", "Duration: 15s, Total samples = 3s",
		"2s 66.67% 66.67%         2s 66.67%  write", "3s   100%  main"} {
		require.Contains(t, string(top), want)
	}
	raw, err := exec.Command("go", "tool", "pprof", "-symbolize=none", "-raw", path).CombinedOutput()
	require.NoError(t, err, string(raw))
	for _, want := range []string{"PeriodType: cpu nanoseconds", "Period: 10309278", "2000000000: 1 2 3", "comm:[app]",
		"0x2345", "/no/such/libc.so.6 abcdef0123 [FN]"} {
		require.Contains(t, string(raw), want)
	}
}

func BenchmarkAdd(b *testing.B) {
	random := rand.New(rand.NewPCG(7, 7))
	locations := randomLocations(random, 2000)
	var input [][]*Location
	for range 3000 {
		stack := make([]*Location, 30)
		for i := range stack {
			stack[i] = locations[random.IntN(len(locations))]
		}
		input = append(input, stack)
	}
	b.Run("known", func(b *testing.B) {
		builder := NewBuilder(testOptions())
		for _, stack := range input {
			builder.Add(stack, 1, nil)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			builder.Add(input[i%len(input)], 1, nil)
		}
	})
	b.Run("profile of 3000 stacks", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			builder := NewBuilder(testOptions())
			for _, stack := range input {
				builder.Add(stack, 1, nil)
			}
			builder.Profiles()
		}
	})
	b.Run("encode 3000 stacks", func(b *testing.B) {
		builder := NewBuilder(testOptions())
		for _, stack := range input {
			builder.Add(stack, 1, nil)
		}
		p := builder.Profiles()[0]
		b.SetBytes(int64(encodedSize(b, p)))
		for b.Loop() {
			if _, err := Encode(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Locations that differ only outside their key stay separate.
func TestAlmostEqualLocations(t *testing.T) {
	leaf := Line{Function: "f", File: "f.c", Line: 3}
	mapping, rebuilt := &Mapping{File: "/bin/app", BuildID: "ab", Limit: 9},
		&Mapping{File: "/bin/app", BuildID: "cd", Limit: 9}
	b := NewBuilder(testOptions())
	for _, l := range []*Location{
		{Mapping: mapping, Address: 5, Lines: []Line{leaf}},
		{Mapping: mapping, Address: 5, Lines: []Line{leaf, {Function: "caller"}}},
		{Mapping: rebuilt, Address: 5, Lines: []Line{leaf}},
		{Mapping: mapping, Address: 5, Lines: []Line{leaf}},
	} {
		b.Add([]*Location{l}, 1, nil)
	}
	profiles := b.Profiles()
	require.Len(t, profiles, 1)
	require.Len(t, profiles[0].Location, 3)
	require.Len(t, profiles[0].Sample, 3)
	require.NoError(t, profiles[0].CheckValid())
}
