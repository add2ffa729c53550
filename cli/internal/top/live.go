package top

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/printable"
)

// live samples this host, and delivers the results round by round.
type live struct {
	recorder *record.Recorder
	cancel   context.CancelFunc
	running  chan struct{} // closed when all goroutines have ended
	commands map[int64]string

	updates chan update
	ended   chan end   // receives one value
	wanted  chan int64 // requested processes for waits, 0 for all
	waits   chan Waits
	used    time.Duration // CPU time of this process at the last round
	at      time.Time     // time of the last round

	hasCommand bool // it started a command, whose end ends the view
}

// update is the result of a round.
type update struct {
	part record.Part
	own  float64 // CPUs used by this process
}

// end describes how sampling ended.
type end struct {
	why string // reason if it ended by itself, else ""
	err error
}

// start starts sampling, and starts a command if there is one. The caller must close the result.
func start(ctx context.Context, o record.Options, command *exec.Cmd) (*live, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &live{
		cancel: cancel, running: make(chan struct{}), commands: map[int64]string{},
		updates: make(chan update), ended: make(chan end, 1), wanted: make(chan int64, 1), waits: make(chan Waits, 1),
		used: ownCPU(), at: time.Now(),
	}
	o.Labels = record.ThreadLabels()
	o.Each = func(p record.Part) error {
		select {
		case l.updates <- update{p, l.ownShare()}:
		case <-ctx.Done():
		}
		return nil
	}
	var err error
	if l.recorder, err = record.Open(o); err != nil {
		cancel()
		return nil, err
	}
	if command != nil {
		if err := l.recorder.Start(command); err != nil {
			cancel()
			return nil, errors.Join(err, l.recorder.Close())
		}
		l.hasCommand = true
	}
	go l.recordRounds(ctx)
	return l, nil
}

// recordRounds samples until ctx is done or the selected processes have ended.
func (l *live) recordRounds(ctx context.Context) {
	defer close(l.running)
	looked := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(looked)
		l.lookAtThreads(ctx)
	}()
	why, err := l.record(ctx)
	l.ended <- end{why, err}
	if err != nil || why == "" {
		cancel()
	}
	<-looked
	cancel()
}

// record turns a panic into an error: the terminal must be restored before the panic is shown.
func (l *live) record(ctx context.Context) (why string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	recording, err := l.recorder.Run(ctx)
	if err != nil {
		return "", err
	}
	return recording.Ended, nil
}

// lookAtThreads answers requests for threads until ctx is done.
func (l *live) lookAtThreads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case pid := <-l.wanted:
			w := Waits{PID: pid}
			w.Threads, w.Err = l.recorder.Threads(uint32(pid))
			select {
			case l.waits <- w:
			case <-ctx.Done():
				return
			}
		}
	}
}

// askWaits requests the threads of a process, 0 for all. The answer arrives in waits.
func (l *live) askWaits(pid int64) {
	select {
	case l.wanted <- pid:
	default: // a request is pending
	}
}

// close ends all goroutines, adds failures to *err, and sets *ended if the command has ended by itself.
func (l *live) close(ended **CommandEnd, err *error) {
	l.cancel()
	<-l.running
	if l.hasCommand {
		code, itself, failed := l.recorder.EndCommand()
		if *err = errors.Join(*err, failed); itself {
			*ended = &CommandEnd{code}
		}
	}
	*err = errors.Join(*err, l.recorder.Close())
}

// endsView reports whether the view ends when the selected processes have ended.
func (l *live) endsView() bool { return l.hasCommand }

// stateNow describes the current round.
func (l *live) stateNow(u update) Now { return Now{OwnCPU: u.own, Command: l.command} }

// command returns the command line of a process, "" if it has none or had already ended.
func (l *live) command(pid int64) string {
	const most = 4096
	text, ok := l.commands[pid]
	if !ok {
		text, _ = procfs.Default.Cmdline(uint32(pid))
		if len(l.commands) >= most {
			clear(l.commands)
		}
		text = printable.Text(strings.TrimSpace(text))
		l.commands[pid] = text
	}
	return text
}

// ownShare returns the average number of CPUs that this process has used since the last call.
func (l *live) ownShare() float64 {
	used, now := ownCPU(), time.Now()
	share := (used - l.used).Seconds() / max(now.Sub(l.at).Seconds(), 1e-9)
	l.used, l.at = used, now
	return share
}

// ownCPU returns the CPU time of this process, 0 if it is unknown.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
