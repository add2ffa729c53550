package ebpf

import (
	"cmp"
	"reflect"
	"slices"
	"sync"

	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
)

// shownUnnamed is how many binaries Stats has of those with unnamed frames.
const shownUnnamed = 20

// countUnnamed adds frames without a name, by executable.
func (s *Session) countUnnamed(frames map[uint32]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for exe, n := range frames {
		if _, ok := s.unnamed[exe]; ok || len(s.unnamed) < maxBinaries {
			s.unnamed[exe] += n
		}
	}
}

// describeUnnamed says of the binaries with most unnamed frames why that is so.
// Executables that are forgotten since are left out.
func (s *Session) describeUnnamed(frames map[uint32]uint64, outside map[string]uint64) []UnnamedStats {
	var out []UnnamedStats
	for exe, n := range frames {
		e := s.tracker.Executable(exe)
		if e == nil {
			continue
		}
		o := &symbol.Object{ID: e.ID, Path: e.Path, BuildID: e.BuildID, Root: e.Root, Open: e.Open}
		u := UnnamedStats{File: e.Path, BuildID: e.BuildID, Frames: n, Explain: func() string { return s.symbolizer.Explain(o) }}
		if status, ok := s.symbolizer.Status(o); ok {
			u.Reason = status.Reason.String()
		}
		out = append(out, u)
	}
	u := UnnamedStats{File: unknownFunction, Reason: "outside_any_mapping", Explain: func() string {
		return "the code is in no file: a just-in-time compiler without a perf map made it, or the file's mapping is gone"
	}}
	for _, n := range outside {
		u.Frames += n
	}
	if u.Frames > 0 {
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b UnnamedStats) int {
		return cmp.Or(cmp.Compare(b.Frames, a.Frames), cmp.Compare(a.File, b.File), cmp.Compare(a.BuildID, b.BuildID))
	})
	return out[:min(len(out), shownUnnamed)]
}

// debuginfodClient is the client in use, if any.
type debuginfodClient struct {
	mu      sync.Mutex
	options debuginfod.Options
	client  *debuginfod.Client
}

// use puts options in force.
func (d *debuginfodClient) use(o debuginfod.Options, s *symbol.Symbolizer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reflect.DeepEqual(o, d.options) {
		return nil
	}
	var client *debuginfod.Client
	if len(o.URLs) > 0 {
		var err error
		if client, err = debuginfod.New(o); err != nil {
			return err
		}
		s.SetFetcher(client)
	} else {
		s.SetFetcher(nil)
	}
	if d.client != nil {
		d.client.Close()
	}
	d.client, d.options = client, o
	return nil
}

func (d *debuginfodClient) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != nil {
		d.client.Close()
		d.client = nil
	}
}
