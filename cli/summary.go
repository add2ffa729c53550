package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/digest"
	"github.com/headwater/headwater/cli/internal/profilefile"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/record"
)

// summaryFlags are the flags of the command summary.
type summaryFlags struct {
	pids     []uint
	all      bool
	rate     int
	duration time.Duration
	maxLines int
}

func summaryCommand() *cobra.Command {
	var f summaryFlags
	cmd := &cobra.Command{
		Use:   "summary [flags] [FILE|URL]",
		Short: "Summarize a profile in a few lines of plain text",
		Long: `Summarizes a profile in a text of limited length, for an issue, a chat or the prompt of a language
model: functions by self and total time, the call paths of the busiest functions, and time by
process and binary.

The summary starts with the completeness of the profile: samples, whole stacks, lost samples, and
time in functions without a name, with the reasons. Equal profiles have equal summaries.

The profile is a file, - for standard input, or an http or https URL, in pprof's format or as
folded stacks. With -p or -a, it is recorded now and kept in memory.

The exit code is 0, 1 if a recording has no samples, 2 if there is no profile, and 130 or 143
after SIGINT or SIGTERM. These signals end the recording, and its samples are shown.`,
		Example: `  headwater summary headwater.pb.gz
  headwater summary -a -d 10
  headwater summary --max-lines 30 -p $(pidof java)`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return endOfSampling(cmd, f.printSummary(cmd, args))
		},
	}
	flags := cmd.Flags()
	flags.UintSliceVarP(&f.pids, "pid", "p", nil, "record these processes, and processes that they start later")
	flags.BoolVarP(&f.all, "all-cpus", "a", false, "record the whole host")
	flags.IntVarP(&f.rate, "freq", "F", 99, "samples per second and CPU of a recording")
	f.duration = 5 * time.Second
	flags.VarP((*duration)(&f.duration), "duration", "d", "how long to record, such as 10 or 1m")
	flags.IntVar(&f.maxLines, "max-lines", 60, "maximum number of lines")
	return cmd
}

func (f *summaryFlags) printSummary(cmd *cobra.Command, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	if len(args) == 1 {
		p, err := profilefile.Read(cmd.Context(), args[0], cmd.InOrStdin())
		if err != nil {
			return err
		}
		if err := f.write(cmd.OutOrStdout(), p); err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		return nil
	}
	caught := catchSignals(cmd.Context(), nil)
	defer caught.stopWaiting()
	p, err := f.record(caught.ctx)
	if err != nil {
		return err
	}
	if err := f.write(cmd.OutOrStdout(), p); err != nil {
		return err
	}
	return caught.exitError()
}

func (f *summaryFlags) check(args []string) error {
	sources := len(args)
	for _, is := range []bool{f.all, len(f.pids) > 0} {
		if is {
			sources++
		}
	}
	switch {
	case sources == 0:
		return errors.New("choose a profile: a FILE or URL, -p PID a process, -a the whole host (see --help)")
	case sources > 1:
		return errors.New("a file, --pid and --all-cpus exclude each other")
	case f.rate < ebpf.MinSampleRate || f.rate > ebpf.MaxSampleRate:
		return fmt.Errorf("--freq must be between %d and %d samples per second, got %d",
			ebpf.MinSampleRate, ebpf.MaxSampleRate, f.rate)
	case f.duration <= 0:
		return fmt.Errorf("--duration must be positive, got %v", f.duration)
	case f.maxLines < digest.MinLines || f.maxLines > digest.MaxLines:
		return fmt.Errorf("--max-lines must be between %d and %d, got %d", digest.MinLines, digest.MaxLines, f.maxLines)
	}
	return nil
}

func (f *summaryFlags) record(ctx context.Context) (*profile.Profile, error) {
	recorded, err := recordBriefly(ctx, record.Selection{PIDs: numbersOf(f.pids)}, f.rate, f.duration)
	if errors.Is(err, errNoCPUTime) {
		return nil, exitError{err, 1}
	}
	if err != nil {
		return nil, err
	}
	return recorded.Profile, nil
}

func (f *summaryFlags) write(w io.Writer, p *profile.Profile) error {
	d, err := digest.Of(p)
	if err != nil {
		return err
	}
	return d.WriteText(w, f.maxLines)
}
