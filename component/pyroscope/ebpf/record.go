package ebpf

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/demangle"
	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/flame/server"
)

// recordProcess makes a recording that a visitor of the page requests, independently of the session. It returns nil if
// the process has used no CPU.
func recordProcess(ctx context.Context, wanted server.Recording) (made *profile.Profile, err error) {
	recorder, err := record.Open(record.Options{
		Selection: record.Selection{PIDs: []uint32{wanted.PID}}, SampleRate: wanted.Rate, UserStacks: true,
		KernelStacks: true, Labels: record.ThreadLabels(), Timestamps: wanted.Format.Times, InlineFrames: true,
		Demangle: demangle.None, TableBytes: ebpf.DefaultTableBytes,
	})
	if gone := (*record.NoProcessError)(nil); errors.As(err, &gone) {
		return nil, fmt.Errorf("%w: %w", server.ErrNoProcess, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()
	timed, cancel := context.WithTimeout(ctx, wanted.During)
	defer cancel()
	recorded, err := recorder.Run(timed)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // the visitor no longer waits for it
	}
	if recorded.Profile != nil {
		pprof.SetTitle(recorded.Profile, wanted.Title())
	}
	return recorded.Profile, nil
}
