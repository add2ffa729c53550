package export

import (
	"encoding/json"
	"io"

	"github.com/google/pprof/profile"
)

// The structures of speedscope's own format, https://www.speedscope.app/file-format-schema.json.
type (
	speedscopeFile struct {
		Schema   string              `json:"$schema"`
		Name     string              `json:"name"`
		Exporter string              `json:"exporter"`
		Active   int                 `json:"activeProfileIndex"`
		Shared   speedscopeShared    `json:"shared"`
		Profiles []speedscopeProfile `json:"profiles"`
	}
	speedscopeShared struct {
		Frames []speedscopeFrame `json:"frames"`
	}
	speedscopeFrame struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
		Line int64  `json:"line,omitempty"`
	}
	speedscopeProfile struct {
		Type    string  `json:"type"`
		Name    string  `json:"name"`
		Unit    string  `json:"unit"`
		Start   int64   `json:"startValue"`
		End     int64   `json:"endValue"`
		Samples [][]int `json:"samples"`
		Weights []int64 `json:"weights"`
	}
)

// Speedscope writes the file format of speedscope: one profile of all samples, or one for each thread if threads are
// known. Samples are not in order of time.
func Speedscope(w io.Writer, p *profile.Profile) error {
	s, err := newStacks(p)
	if err != nil {
		return err
	}
	file := speedscopeFile{
		Schema: "https://www.speedscope.app/file-format-schema.json", Name: Title(p), Exporter: "headwater",
		Shared: speedscopeShared{Frames: []speedscopeFrame{}}, Profiles: []speedscopeProfile{},
	}
	frames := map[speedscopeFrame]int{}
	byThread := map[thread]int{}
	for _, sample := range p.Sample {
		var stack []int
		for _, f := range s.codeFrames(sample) {
			shown := speedscopeFrame{Name: f.name, File: f.file, Line: f.startLine}
			if f.file == "" {
				shown.File = f.binary
			}
			id, ok := frames[shown]
			if !ok {
				id = len(frames)
				frames[shown] = id
				file.Shared.Frames = append(file.Shared.Frames, shown)
			}
			stack = append(stack, id)
		}
		t, _ := threadOf(sample)
		at, ok := byThread[t]
		if !ok {
			at = len(file.Profiles)
			byThread[t] = at
			file.Profiles = append(file.Profiles, newSpeedscopeProfile(s, t))
		}
		file.Profiles[at].addStack(stack, s.valueOf(sample))
	}
	return json.NewEncoder(w).Encode(file)
}

// newSpeedscopeProfile returns the empty profile of a thread, or of all threads if t is zero.
func newSpeedscopeProfile(s *stacks, t thread) speedscopeProfile {
	out := speedscopeProfile{Type: "sampled", Name: Title(s.profile), Unit: "none", Samples: [][]int{}, Weights: []int64{}}
	if t != (thread{}) {
		out.Name = t.String()
	}
	switch s.valueUnit() {
	case "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes":
		out.Unit = s.valueUnit()
	}
	return out
}

func (p *speedscopeProfile) addStack(stack []int, weight int64) {
	p.Samples, p.Weights, p.End = append(p.Samples, stack), append(p.Weights, weight), p.End+weight
}
