package profile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/unwind"
)

// shownUnnamed is the maximum number of binaries with unnamed frames in Stats.
const shownUnnamed = 20

// describeUnnamed lists the binaries with most unnamed frames, and the reasons. It leaves out executables that were
// forgotten since.
func (n *names) describeUnnamed(frames map[unwind.ExeID]uint64, outside map[string]uint64) []UnnamedStats {
	var out []UnnamedStats
	for exe, count := range frames {
		e := n.executables.Executable(exe)
		if e == nil {
			continue
		}
		o := objectOf(n.executables, e)
		u := UnnamedStats{
			File: limit.Text(e.Path), BuildID: e.BuildID, Frames: count,
			Explain: func() string { return n.explain(o) },
		}
		if status, ok := n.symbolizer.Status(o); ok {
			u.Reason = status.Reason.String()
		}
		if n.readers.whyUnnamed(exe) != nil {
			u.Reason = "not_ready"
		}
		out = append(out, u)
	}
	u := UnnamedStats{File: unknownFunction, Reason: "outside_any_mapping", Explain: func() string {
		return "the code has no file: it is from a just-in-time compiler without a perf map, or the file is unmapped"
	}}
	for _, count := range outside {
		u.Frames += count
	}
	if u.Frames > 0 {
		out = append(out, u)
	}
	slices.SortStableFunc(out, func(a, b UnnamedStats) int {
		return cmp.Or(cmp.Compare(b.Frames, a.Frames), cmp.Compare(a.File, b.File), cmp.Compare(a.BuildID, b.BuildID))
	})
	return out[:min(len(out), shownUnnamed)]
}

// explainPatience is the maximum wait for the lists of a package manager.
const explainPatience = 500 * time.Millisecond

// explain returns the reason why names of an executable are missing.
func (n *names) explain(o *symbol.Object) string {
	if late := n.readers.whyUnnamed(unwind.ExeID(o.ID)); late != nil {
		return late.Error()
	}
	origin := filework.Origin{Mount: fmt.Sprintf("package lists of user %d", o.Owner), Owner: o.Owner}
	why, err := filework.Get(n.files, origin, "reading the package lists for "+o.Path, explainPatience,
		func() (string, error) { return n.symbolizer.Explain(o), nil }, nil)
	if err != nil {
		return err.Error()
	}
	return why
}
