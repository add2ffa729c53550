package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headwater/headwater/cli/internal/top"
	"github.com/headwater/headwater/ebpf/kind"
)

// topFlags are the flags of the command top.
type topFlags struct {
	samplingFlags

	by       string
	interval time.Duration
	window   time.Duration
	windowed bool // it was given
	duration time.Duration
	once     bool
	tables   int
	rows     int
	json     bool
	noColor  bool
}

func topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top [flags]",
		Short: "Show live where CPU time goes: by process, thread, function or binary",
		Long: `Samples CPUs, and shows on the terminal where their time goes: by process, thread,
function or binary, as a flame graph, and what the threads of a process wait for. Without
flags it shows the whole host. Keys switch, sort, filter, open what is selected and write
what is shown to a pprof file; ? lists them.

The second line says how much of the truth that is: samples, the share of whole stacks,
samples that were lost, time in functions without a name, and the CPU time of this program.

With --once, -n or --json, or where standard output is no terminal, it prints plain tables.
NO_COLOR in the environment, or --no-color, leaves out colors.

The exit code is 0, 1 if tables were printed and nothing of what was selected used a CPU,
2 if nothing could be sampled, and 130 or 143 after SIGINT or SIGTERM.`,
		Example: `  headwater top
  headwater top -p $(pidof java) --by function
  headwater top --once --interval 10 | head -n 20
  headwater top --json -n 6 --by binary`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return endOfSampling(cmd, f.run(cmd))
		},
	}
	f.register(cmd.Flags())
	completeSelection(cmd)
	return cmd
}

func (f *topFlags) register(flags *pflag.FlagSet) {
	f.samplingFlags.register(flags)
	flags.Lookup("event").Usage = "what is sampled: cpu, which is CPU time, and nothing else"
	flags.StringVar(&f.by, "by", string(top.ByProcess), "what to show at first: process, thread, function, binary, "+
		"flame, or with -p waits")
	durationVar(flags, &f.interval, "interval", 2*time.Second, "time between two updates, or tables")
	durationVar(flags, &f.window, "window", 30*time.Second, "show what was sampled in this time; of tables, the interval")
	flags.VarP((*duration)(&f.duration), "duration", "d", "end after this time; a table is of all of it; 0s: do not end")
	flags.BoolVar(&f.once, "once", false, "print one plain table, as -n 1 does")
	flags.IntVarP(&f.tables, "tables", "n", 0, "print that many plain tables")
	flags.IntVar(&f.rows, "rows", 40, "rows of a plain table; 0: all")
	flags.BoolVar(&f.json, "json", false, "print each table as JSON on a line")
	flags.BoolVar(&f.noColor, "no-color", false, "use no colors")
}

// run shows or prints.
func (f *topFlags) run(cmd *cobra.Command) error {
	f.windowed = cmd.Flags().Changed("window")
	if f.chosen() == 0 && f.cpus == "" {
		f.all = true
	}
	options, err := f.samplingFlags.options()
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	o := top.Options{
		Record: options, By: top.By(f.by), Interval: f.interval, Span: max(f.window, f.interval), Duration: f.duration,
		NoColor: f.noColor || os.Getenv("NO_COLOR") != "",
	}
	caught := catchSignals(cmd.Context(), nil)
	defer caught.stop()
	if f.plain(cmd) {
		err = f.print(caught.ctx, cmd, o)
	} else {
		err = top.Show(caught.ctx, o)
	}
	if errors.Is(err, top.ErrNothing) {
		return exitError{err, 1}
	}
	if err != nil {
		return err
	}
	return caught.exit()
}

// print prints tables. Each is of what came since the last one, unless a window was given.
func (f *topFlags) print(ctx context.Context, cmd *cobra.Command, o top.Options) error {
	tables := top.Tables{Count: max(f.tables, 1), Rows: f.rows, JSON: f.json, Columns: columns()}
	switch {
	case f.duration > 0 && f.tables == 0:
		o.Interval = f.duration
	case f.duration > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	if !f.windowed {
		o.Span = o.Interval
	}
	return top.Print(ctx, o, tables, cmd.OutOrStdout())
}

// plain reports whether tables are printed: there is no terminal, or they are asked for.
func (f *topFlags) plain(cmd *cobra.Command) bool {
	return f.once || f.tables > 0 || f.json || !isTerminal(cmd.OutOrStdout()) || os.Getenv("TERM") == "dumb"
}

// check returns an error for flags that make no sense.
func (f *topFlags) check() error {
	const shortest = 100 * time.Millisecond
	switch by := top.By(f.by); {
	case f.event.kind != kind.CPU:
		return fmt.Errorf("--event: top shows CPU time; headwater record -e %s records them", &f.event)
	case !slices.Contains(top.Views(), by):
		return fmt.Errorf("--by must be process, thread, function, binary, flame or waits, got %q", f.by)
	case by == top.ByWaits && len(f.pids) != 1:
		return errors.New("--by waits shows one process: name it with --pid")
	case by == top.ByFlame && f.json:
		return errors.New("--json has no flame graph: use headwater record -f json")
	case f.interval < shortest:
		return fmt.Errorf("--interval must be at least %v, got %v", shortest, f.interval)
	case f.windowed && f.window < f.interval:
		return fmt.Errorf("--window must not be shorter than --interval, got %v and %v", f.window, f.interval)
	case f.duration < 0:
		return fmt.Errorf("--duration must not be negative, got %v", f.duration)
	case f.tables < 0, f.rows < 0:
		return errors.New("--tables and --rows must not be negative")
	case f.once && f.tables > 1:
		return errors.New("--once and --tables exclude each other")
	}
	return nil
}

// columns is the width of what is printed: that of the terminal as the shell says, if it does.
func columns() int {
	const standard, least, most = 120, 20, 1000
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= least {
		return min(n, most)
	}
	return standard
}
