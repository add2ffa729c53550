package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/digest"
	"github.com/headwater/headwater/cli/internal/outfile"
	"github.com/headwater/headwater/cli/internal/summary"
	"github.com/headwater/headwater/ebpf/host/footprint"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/printable"
)

func recordCommand() *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record [flags] [-- COMMAND ARGS...]",
		Short: "Record a profile, and write it to one file",
		Long: `Samples CPUs for a while and writes one file: a pprof profile, a flame graph, or another format,
chosen by the end of the file's name. Stacks are whole without frame pointers. They have inlined
functions, and functions of Python, Java and JavaScript.

Choose a process (-p), a thread (-t), the whole host (-a), CPUs (-C), a control group (-G), a
container, a systemd unit, or a COMMAND. A COMMAND is recorded from its first instruction on, with
all its child processes. The recording ends after --duration, with the process or command, or with
Ctrl-C. In each case the file is written.

At the end, record prints the functions with most samples, the share of whole stacks, the number of
lost samples, and the binaries without names, with the packages that have their names.

The exit code is COMMAND's if COMMAND ended by itself. Otherwise it is 0 after a recording, 1 if
there were no samples, 2 if nothing could be recorded, and 130 or 143 after SIGINT or SIGTERM. A
second signal ends the command at once, without a file.`,
		Example: `  headwater record -p 4711 -d 10
  headwater record -a -d 30 -o cpu.html
  headwater record -F 999 -o - -f folded -- ./program arguments | sort -k2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return endOfSampling(cmd, newRecording(cmd, &f, args).recordToFile(cmd.Context()))
		},
	}
	f.register(cmd.Flags())
	completeSelection(cmd)
	completeWords(cmd, "format", export.Names())
	completeWords(cmd, "event", events())
	completeWords(cmd, "label", append(profile.LabelNames(), profile.LabelWaker))
	return cmd
}

// recording is one run of headwater record.
type recording struct {
	flags          *recordFlags
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	named          bool // the output file was named

	format export.Format
	file   *outfile.File // nil: standard output
}

func newRecording(cmd *cobra.Command, f *recordFlags, args []string) *recording {
	return &recording{
		flags: f, args: args, named: cmd.Flags().Changed("output"),
		stdin: cmd.InOrStdin(), stdout: printable.Unwrap(cmd.OutOrStdout()), stderr: cmd.ErrOrStderr(),
	}
}

// recordToFile records and writes. It refuses invalid flags before it starts recording.
func (r *recording) recordToFile(ctx context.Context) (err error) {
	options, err := r.flags.options(r.args)
	if err != nil {
		return err
	}
	if err := r.chooseFormat(); err != nil {
		return err
	}
	if r.format.Times && options.Kind != kind.CPU {
		return fmt.Errorf("format %s is for CPU time, not for %s: try pprof, html or folded", r.format.Name, options.Kind)
	}
	if len(r.args) > 0 {
		if _, err := exec.LookPath(r.args[0]); err != nil {
			return err
		}
	}
	if err := r.create(); err != nil {
		return err
	}
	if r.file != nil {
		defer func() { err = errors.Join(err, r.file.Discard()) }()
	}
	r.noteAccepted()
	if r.format.Times {
		options.Labels = append(options.Labels, record.ThreadLabels()...)
	}
	options.Timestamps = options.Timestamps || r.format.Times

	caught := catchSignals(ctx, r.abandon)
	defer caught.stopWaiting()
	recorder, err := record.Open(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()
	return r.record(caught, recorder)
}

// record makes the recording, and writes it.
func (r *recording) record(caught *signals, recorder *record.Recorder) error {
	if len(r.args) > 0 {
		if err := recorder.Start(r.command()); err != nil {
			return err
		}
	}
	ctx := caught.ctx
	if d := r.flags.duration; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	// It saves memory, and changes no results.
	go footprint.ReleaseMemory(caught.ctx, footprint.SmallHeap, func(error) {})
	stopProgress := r.showProgress(recorder)
	recorded, err := recorder.Run(ctx)
	stopProgress()
	if err != nil {
		return err
	}
	code, ended := 0, false
	if len(r.args) > 0 {
		if code, ended, err = recorder.EndCommand(); err != nil {
			return err
		}
	}
	written := r.write(recorded)
	switch {
	case ended && code != 0: // the command has reported its failure itself
		if written != nil {
			fmt.Fprintln(r.stderr, "Error:", written)
		}
		return commandExit(code)
	case ended && (errors.Is(written, errNoSamples) || errors.Is(written, errNoEvents)):
		fmt.Fprintln(r.stderr, "headwater:", written)
		return nil
	case written != nil:
		return written
	}
	return caught.exitError()
}

// command returns the program to record. Its output does not mix with the output of headwater.
func (r *recording) command() *exec.Cmd {
	cmd := exec.Command(r.args[0], r.args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.stdin, r.stdout, printable.Unwrap(r.stderr)
	if r.flags.output == "-" {
		cmd.Stdout = cmd.Stderr
	}
	return cmd
}

// chooseFormat sets the format, and the name of the file if no name was given.
func (r *recording) chooseFormat() (err error) {
	f := r.flags
	switch {
	case f.format != "":
		if r.format, err = export.ByName(f.format); err != nil {
			return err
		}
		if !r.named {
			f.output = "headwater" + r.format.Suffixes[0]
		}
	case f.output == "-":
		r.format, err = export.ByName("pprof")
	default:
		r.format, err = export.ByFile(f.output)
	}
	return err
}

// create creates the output file.
func (r *recording) create() (err error) {
	if r.flags.output != "-" {
		r.file, err = outfile.Create(r.flags.output)
		return err
	}
	if r.format.Name == "pprof" && isTerminal(r.stdout) {
		return errors.New("pprof is not for terminals: name a file with --output, or choose another --format")
	}
	return nil
}

// noteAccepted reports flags of perf that have no effect here.
func (r *recording) noteAccepted() {
	if (r.flags.callGraph || r.flags.callGraphMode != "") && !r.flags.quiet {
		fmt.Fprintln(r.stderr, "-g and --call-graph have no effect: whole stacks are always recorded")
	}
}

// errNoSamples says that there are no samples to write.
var errNoSamples = fmt.Errorf("%w, so no file was written", errNoCPUTime)

// noSamples returns the error for a recording without samples.
func (r *recording) noSamples(recorded *record.Recording) error {
	switch r.flags.event.kind {
	case kind.CPU, kind.Wall:
		return errNoSamples
	case kind.OffCPU:
		return fmt.Errorf("%w no selected thread waited, so no file was written", errNoEvents)
	case kind.Heap:
		if len(recorded.Paused) > 0 {
			return fmt.Errorf("%w %s, more than --heap-limit allows, so no file was written; --heap-limit 0 removes the limit",
				errNoEvents, recorded.Paused[0])
		}
		return fmt.Errorf("%w no sampled allocation was live at the end, so no file was written; only allocations by malloc "+
			"during the recording are sampled: record longer, or lower --period", errNoEvents)
	}
	if text := summary.Dropped(recorded.Dropped); text != "" {
		return fmt.Errorf("%w no hit of %s has a value, so no file was written: %s", errNoEvents, &r.flags.event, text)
	}
	if text := summary.Flood(recorded); text != "" {
		return fmt.Errorf("%w the selected processes had no sampled %s, so no file was written: %s", errNoEvents,
			&r.flags.event, text)
	}
	return fmt.Errorf("%w the selected processes had no sampled %s, so no file was written; "+
		"a lower --period samples more events", errNoEvents, &r.flags.event)
}

// errNoEvents is the start of an error about a kind of events without samples.
var errNoEvents = errors.New("no samples:")

// write writes the file and the summary.
func (r *recording) write(recorded *record.Recording) error {
	if recorded.Profile == nil {
		if text := summary.LeftOut(recorded.LeftOut); text != "" && !r.flags.quiet {
			fmt.Fprintln(r.stderr, text)
		}
		return exitError{r.noSamples(recorded), 1}
	}
	var out io.Writer = r.stdout
	if r.file != nil {
		out = r.file
	}
	digest.KeepReasons(recorded, func(i int) string { return summary.Explain(recorded.Unnamed[i]) })
	debug.FreeOSMemory() // free the recorder's tables: writing needs memory too
	if err := r.format.Write(out, recorded.Profile); err != nil {
		return fmt.Errorf("write %s: %w", r.flags.output, err)
	}
	s := summary.Summary{Recording: recorded, Format: r.format, Rate: r.sampleRate(), Verbose: r.flags.verbose}
	if r.file != nil {
		if err := r.file.Keep(); err != nil {
			return fmt.Errorf("write %s: %w", r.flags.output, err)
		}
		s.File, s.Size = r.flags.output, r.file.Size()
	}
	service, failed := r.flags.push.pushProfile(context.Background(), recorded.Profile, recorded.Kind)
	s.Service = service
	return errors.Join(r.summarize(&s), failed)
}

// sampleRate returns the samples per second and CPU, 0 for events.
func (r *recording) sampleRate() int {
	switch r.flags.event.kind {
	case kind.CPU, kind.Wall:
		return r.flags.rate
	case kind.OffCPU:
		return min(r.flags.rate, maxPasses)
	}
	return 0
}

// summarize writes the summary in the form that the flags select.
func (r *recording) summarize(s *summary.Summary) error {
	switch {
	case r.flags.json:
		return s.WriteJSON(r.stdout)
	case r.flags.quiet:
		return nil
	default:
		return s.WriteText(r.stderr)
	}
}

// showProgress shows the progress of the recording on a terminal, until the returned function is called.
func (r *recording) showProgress(recorder *record.Recorder) (stop func()) {
	if r.flags.quiet || !isTerminal(r.stderr) {
		return func() {}
	}
	done, shown, terminal := make(chan struct{}), make(chan struct{}), printable.Unwrap(r.stderr)
	begun := time.Now()
	go func() {
		defer close(shown)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		clear := ""
		for {
			select {
			case <-done:
				fmt.Fprint(terminal, clear)
				return
			case <-ticker.C:
				p := recorder.Progress()
				if len(r.args) > 0 && !p.Naming {
					continue // the command may be using the terminal
				}
				clear = "\r\x1b[K"
				fmt.Fprintf(terminal, "\r%s\x1b[K", printable.Text(summary.Progress(time.Since(begun), p)))
			}
		}
	}()
	return func() {
		close(done)
		<-shown
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := printable.Unwrap(w).(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// abandon ends this process at the second signal. The first signal has ended the recording, whose frames are being
// named or written.
func (r *recording) abandon(sig syscall.Signal) {
	switch name := r.flags.output; {
	case r.file == nil:
		fmt.Fprintln(r.stderr, "headwater: ended by a second signal: the output is cut short")
	case r.file.Abandon():
		fmt.Fprintf(r.stderr, "headwater: ended by a second signal before %s was written; the recording is lost\n",
			name)
	default:
		fmt.Fprintf(r.stderr, "headwater: ended by a second signal; %s may exist, without a summary\n", name)
	}
	os.Exit(128 + int(sig))
}

// signals cancels a context at the first SIGINT or SIGTERM; the second signal ends the process.
type signals struct {
	ctx    context.Context
	cancel context.CancelFunc
	caught chan os.Signal
	first  chan os.Signal

	stopped chan struct{} // closed by stop
}

// catchSignals starts to wait for signals. If second is set, it is called with the second signal, on its own goroutine,
// and must end the process.
func catchSignals(ctx context.Context, second func(syscall.Signal)) *signals {
	s := &signals{caught: make(chan os.Signal, 2), first: make(chan os.Signal, 1), stopped: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	signal.Notify(s.caught, os.Interrupt, syscall.SIGTERM)
	go s.waitForSignal(second)
	return s
}

// waitForSignal waits for the first signal, and then, if second is set, for the second one.
func (s *signals) waitForSignal(second func(syscall.Signal)) {
	select {
	case sig := <-s.caught:
		if second == nil {
			signal.Stop(s.caught)
		}
		s.first <- sig
		s.cancel()
	case <-s.stopped:
		return
	}
	if second == nil {
		return
	}
	select {
	case sig := <-s.caught:
		if number, ok := sig.(syscall.Signal); ok {
			second(number)
		}
	case <-s.stopped:
	}
}

func (s *signals) stopWaiting() {
	signal.Stop(s.caught)
	s.cancel()
	close(s.stopped)
}

// exitError returns an error that ends the process with the exit code for the signal, nil if there was no signal.
func (s *signals) exitError() error {
	select {
	case sig := <-s.first:
		if number, ok := sig.(syscall.Signal); ok {
			return exitError{silent{}, 128 + int(number)}
		}
	default:
	}
	return nil
}
