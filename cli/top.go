package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headwater/headwater/cli/internal/top"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/printable"
)

// topFlags are the flags of the command top.
type topFlags struct {
	samplingFlags

	by       string
	interval time.Duration
	window   time.Duration
	windowed bool // the window was given
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
		Use:   "top [flags] [-- COMMAND ARGS...]",
		Short: "Show live where CPU time goes: by process, thread, function or binary",
		Long: `Samples CPUs, and shows their time on the terminal by process, thread, function or binary, or as a
flame graph. It also shows the waits of threads. Without flags, top shows the whole host. With a
COMMAND, it shows the command and all its child processes. Keys switch the view, sort, filter, open
the selected row, and write the samples to a pprof file; ? lists the keys.

The second line is about data quality: number of samples, share of whole stacks, lost samples, time
in functions without a name, and CPU time of top itself.

With --once, -n or --json, or if standard output is no terminal, top prints plain tables. NO_COLOR
in the environment, or --no-color, removes colors.

If COMMAND ends, top ends and prints a table of its CPU time. If top ends first, it ends COMMAND.
While the terminal shows the view, COMMAND has no input and its output is dropped. With plain
tables, its output goes to standard error.

The exit code is COMMAND's if COMMAND ended by itself. Otherwise it is 0, 1 if top printed tables
and the selected processes used no CPU time, 2 if nothing could be sampled, and 130 or 143 after
SIGINT or SIGTERM.`,
		Example: `  headwater top
  headwater top -p $(pidof java) --by function
  headwater top --once --interval 10 | head -n 20
  headwater top --json -n 6 --by binary
  headwater top --by function -- ./program arguments`,
		Args: commandAfterDashes,
		RunE: func(cmd *cobra.Command, args []string) error {
			return endOfSampling(cmd, f.runTop(cmd, args))
		},
	}
	f.register(cmd.Flags())
	completeSelection(cmd)
	var views []string
	for _, by := range top.Views() {
		views = append(views, string(by))
	}
	completeWords(cmd, "by", views)
	return cmd
}

// commandAfterDashes refuses arguments before "--", which the user may have meant as the name of a process.
func commandAfterDashes(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || cmd.ArgsLenAtDash() == 0 {
		return nil
	}
	return fmt.Errorf("%q is no flag: -p PID shows a running process, and -- %s starts a command", args[0], args[0])
}

func (f *topFlags) register(flags *pflag.FlagSet) {
	f.samplingFlags.register(flags)
	flags.Lookup("event").Usage = "event to sample: only cpu (CPU time)"
	flags.StringVar(&f.by, "by", string(top.ByProcess), "first view: process, thread, function, binary, "+
		"flame or waits")
	durationVar(flags, &f.interval, "interval", 2*time.Second, "time between two updates or two tables")
	durationVar(flags, &f.window, "window", 30*time.Second,
		"show the samples of this last period (default for tables: --interval)")
	flags.VarP((*duration)(&f.duration), "duration", "d", "end after this time, with one table of all samples; 0s: never")
	flags.BoolVar(&f.once, "once", false, "print one plain table, like -n 1")
	flags.IntVarP(&f.tables, "tables", "n", 0, "print this number of plain tables")
	flags.IntVar(&f.rows, "rows", 40, "rows in a plain table; 0: all")
	flags.BoolVar(&f.json, "json", false, "print each table as one line of JSON")
	flags.BoolVar(&f.noColor, "no-color", false, "use no colors")
}

// runTop shows the view or prints tables.
func (f *topFlags) runTop(cmd *cobra.Command, args []string) error {
	f.windowed = cmd.Flags().Changed("window")
	f.selection.Command = len(args) > 0
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
	if len(args) > 0 {
		if o.Command, err = f.command(cmd, args); err != nil {
			return err
		}
	}
	return f.showTop(cmd, o)
}

// showTop shows the view or prints tables until the end, and returns the error for the exit code.
func (f *topFlags) showTop(cmd *cobra.Command, o top.Options) error {
	caught := catchSignals(cmd.Context(), nil)
	defer caught.stopWaiting()
	how := top.Show
	if f.plain(cmd) {
		how = f.print
	}
	ended, err := how(caught.ctx, o, f.format(), cmd.OutOrStdout())
	nothing := errors.Is(err, top.ErrNothing)
	switch {
	case ended != nil && (err == nil || nothing):
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "headwater:", err)
		}
		return commandExit(ended.Code)
	case nothing:
		return exitError{err, 1}
	case err != nil:
		return err
	}
	return caught.exitError()
}

// commandExit returns an error that exits with a command's exit code, without a message.
func commandExit(code int) error {
	if code == 0 {
		return nil
	}
	return exitError{silent{}, code}
}

// format returns the options for tables.
func (f *topFlags) format() top.Tables {
	return top.Tables{Count: max(f.tables, 1), Rows: f.rows, JSON: f.json, Columns: columns()}
}

// command returns the program to start. If the view uses the terminal, the program gets neither input nor output.
func (f *topFlags) command(cmd *cobra.Command, args []string) (*exec.Cmd, error) {
	if _, err := exec.LookPath(args[0]); err != nil {
		return nil, err
	}
	program := exec.Command(args[0], args[1:]...)
	if f.plain(cmd) {
		errors := printable.Unwrap(cmd.ErrOrStderr())
		program.Stdin, program.Stdout, program.Stderr = cmd.InOrStdin(), errors, errors
	}
	return program, nil
}

// print prints tables. Each covers the time since the previous one, unless a window was given.
func (f *topFlags) print(ctx context.Context, o top.Options, p top.Tables, out io.Writer) (*top.CommandEnd, error) {
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
	return top.Print(ctx, o, p, out)
}

// plain reports whether to print tables: without a terminal, or on request.
func (f *topFlags) plain(cmd *cobra.Command) bool {
	return f.once || f.tables > 0 || f.json || !isTerminal(cmd.OutOrStdout()) || os.Getenv("TERM") == "dumb"
}

// check returns an error for invalid flags.
func (f *topFlags) check() error {
	const shortest = 100 * time.Millisecond
	switch by := top.By(f.by); {
	case f.event.kind != kind.CPU:
		return fmt.Errorf("--event: top samples only CPU time; use headwater record -e %s", &f.event)
	case !slices.Contains(top.Views(), by):
		return fmt.Errorf("--by must be process, thread, function, binary, flame or waits, got %q", f.by)
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

// columns returns the width of the output: the terminal's width according to the shell, if available.
func columns() int {
	const standard, least, most = 120, 20, 1000
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= least {
		return min(n, most)
	}
	return standard
}
