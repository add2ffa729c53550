package cli

import (
	"context"
	"errors"
	"time"

	"github.com/headwater/headwater/cli/internal/digest"
	"github.com/headwater/headwater/cli/internal/summary"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/demangle"
)

// errNoCPUTime says that the selected processes used no CPU.
var errNoCPUTime = errors.New("no samples: the selected processes used no CPU time")

// recordBriefly records the selected processes, at rate samples per second and CPU, for the duration during or until
// ctx is done. The profile distinguishes processes, and contains its completeness. The errors are those that
// record.Open returns, and errNoCPUTime.
func recordBriefly(
	ctx context.Context, what record.Selection, rate int, during time.Duration,
) (r *record.Recording, err error) {
	recorder, err := record.Open(record.Options{
		Selection: what, SampleRate: rate, UserStacks: true, KernelStacks: true,
		Labels: record.ThreadLabels(), InlineFrames: true, Demangle: demangle.Simplified, TableBytes: ebpf.DefaultTableBytes,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	if r, err = recorder.Run(ctx); err != nil {
		return nil, err
	}
	if r.Profile == nil {
		return nil, errNoCPUTime
	}
	digest.KeepReasons(r, func(i int) string { return summary.Explain(r.Unnamed[i]) })
	return r, nil
}
