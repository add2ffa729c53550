// Package top shows current CPU use: in a terminal, or as plain tables.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/headwater/headwater/cli/internal/outfile"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/export"
)

// Options configure the recording and the view.
type Options struct {
	Record   record.Options
	By       By
	Interval time.Duration // between two rounds
	Span     time.Duration // length of the shown time
	Duration time.Duration // total time; 0: no limit
	NoColor  bool

	Command *exec.Cmd // to start, with Record.Command; nil if none
}

// Tables configure the printed tables.
type Tables struct {
	Count   int // number of tables; 0: no limit
	Rows    int // maximum number of rows per table; 0: all
	Columns int // width of a flame graph
	JSON    bool
}

// ErrNothing says that the selected processes used no CPU.
var ErrNothing = errors.New("no samples: the selected processes used no CPU time")

// CommandEnd says that the command has ended by itself, with this exit code; 128+n means signal n.
type CommandEnd struct{ Code int }

// Print prints tables, one each Interval, until ctx is done or the selected processes have ended. The error is
// ErrNothing if all tables were empty. ended is nil unless the command has ended by itself.
func Print(ctx context.Context, o Options, p Tables, out io.Writer) (ended *CommandEnd, err error) {
	l, v, err := o.openLive(ctx)
	if err != nil {
		return nil, err
	}
	defer l.close(&ended, &err)
	return nil, l.print(ctx, v, p, out)
}

func (l *live) print(ctx context.Context, v *View, p Tables, out io.Writer) error {
	samples := uint64(0)
	for n := 0; p.Count == 0 || n < p.Count; n++ {
		more, err := l.nextUpdate(ctx, v)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		samples += v.window.progress().Samples
		if n > 0 && !p.JSON {
			fmt.Fprintln(out)
		}
		if err := v.write(out, p); err != nil {
			return err
		}
	}
	if samples == 0 && ctx.Err() == nil && v.by != ByWaits {
		return ErrNothing
	}
	return nil
}

// nextUpdate waits for a round, and in the view of waits also for threads. more is false if there is no further round.
func (l *live) nextUpdate(ctx context.Context, v *View) (more bool, err error) {
	select {
	case <-ctx.Done():
		return false, nil
	case e := <-l.ended:
		l.ended <- e
		return false, e.err
	case u := <-l.updates:
		v.Add(u.part, l.stateNow(u))
	}
	pid, ok := v.WaitsOf()
	if !ok {
		return true, nil
	}
	l.askWaits(pid)
	select {
	case <-ctx.Done():
		return false, nil
	case w := <-l.waits:
		v.SetWaits(w)
		return w.Err == nil, w.Err
	}
}

// openLive starts sampling, and makes a view of the samples.
func (o *Options) openLive(ctx context.Context) (*live, *View, error) {
	o.Record.Round = o.Interval
	l, err := start(ctx, o.Record, o.Command)
	if err != nil {
		return nil, nil, err
	}
	about := About{What: l.recorder.String(), Rate: o.Record.SampleRate}
	if pids := o.Record.PIDs; len(pids) == 1 {
		about.PID = int64(pids[0])
	}
	return l, NewView(about, o.By, o.Span), nil
}

// saveWindow writes the kept samples to a new file in the current folder, and returns its name and size.
func (v *View) saveWindow(now time.Time) (name string, size int64, err error) {
	p, err := v.window.Profile()
	if err != nil {
		return "", 0, err
	}
	if p == nil {
		return "", 0, errors.New("there are no samples to write yet")
	}
	base := "headwater-top-" + now.Format("20060102-150405")
	name = base + ".pb.gz"
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			break
		}
		name = fmt.Sprintf("%s-%d.pb.gz", base, n)
	}
	file, err := outfile.Create(name)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	if err := export.Pprof(file, p); err != nil {
		return "", 0, fmt.Errorf("write %s: %w", name, err)
	}
	return name, file.Size(), file.Keep()
}

// Save writes the kept samples to a file, and shows the result in the view.
func (v *View) Save() {
	name, size, err := v.saveWindow(time.Now())
	if err != nil {
		v.message = err.Error()
		return
	}
	v.message = fmt.Sprintf("wrote %s (%d KiB, %.0f s); headwater report shows it", name, (size+1023)>>10,
		v.window.seconds())
}
