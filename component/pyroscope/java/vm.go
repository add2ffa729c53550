package java

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-kit/log/level"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component/common/mailbox"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/component/pyroscope/java/jfr"
	"github.com/headwater/headwater/component/pyroscope/java/recorder"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/process/target"
)

// Times of one VM's recordings.
const (
	turnPatience = time.Minute     // for a VM to end a recording and start the next
	lastPatience = 2 * time.Second // the same at the end of the component
	sendPatience = time.Minute     // for the receivers
	spareTurns   = 2               // intervals beyond its own until a VM ends a recording by itself
	leastSpare   = 2 * time.Minute // the same, if intervals are short
)

// order has the newest arguments for a vm.
type order struct {
	args   Arguments
	target map[string]string
}

// vm makes and reads the recordings of one process. One goroutine uses it, except for state.
type vm struct {
	c       *Component
	pid     int
	stop    context.CancelFunc
	updates *mailbox.Mailbox[order]

	order   order
	process procfs.Instance
	running string    // name of the recording; "" if none runs
	since   time.Time // start of the recording
	after   uint64    // see jfr.Options

	mu    sync.Mutex
	debug DebugVM
}

// follow makes recordings until ctx is done or the process ends.
func (v *vm) follow(ctx context.Context) {
	interval := func(o order) time.Duration { return o.args.Profiling.Interval }
	for o, fresh := range v.updates.Turns(ctx, interval) {
		same := fresh && v.running != "" && o.args.Profiling == v.order.args.Profiling // the recording serves o as well
		v.order = o
		if same {
			continue
		}
		if v.lives() {
			v.takeTurn(ctx, true)
		}
	}
	if v.lives() && v.running != "" {
		v.takeTurn(ctx, false)
	}
}

// lives reports whether the process lives. It forgets the recording of an earlier process with the same PID.
func (v *vm) lives() bool {
	process, err := procfs.Default.Instance(uint32(v.pid))
	if err != nil || !process.Is(v.process) {
		v.process, v.running, v.after = process, "", 0
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.debug.Service = target.Of(v.order.target).ServiceName()
	if v.debug.Recording = v.running; err != nil {
		v.debug.Error = ""
	}
	return err == nil
}

// takeTurn ends the recording that runs, sends its profiles, and starts the next one if again is set.
func (v *vm) takeTurn(ctx context.Context, again bool) {
	ctx, cancel := outlive(ctx, lastPatience)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, turnPatience)
	defer cancel()
	select {
	case v.c.turns <- struct{}{}:
		defer func() { <-v.c.turns }()
	case <-ctx.Done():
		return
	}
	wanted := &v.order.args.Profiling
	q := recorder.Request{
		PID: v.pid, Dir: v.order.args.TmpDir, Stop: v.running, Since: v.since,
		Duration: max(spareTurns*wanted.Interval, leastSpare) + wanted.Interval,
		Alloc:    wanted.Alloc != "", Locks: wanted.Lock != "",
		Options: jfr.Options{After: v.after, Lock: wanted.lock(), Threads: wanted.PerThread},
	}
	if again {
		q.Start = fmt.Sprintf("headwater-%08x", rand.Uint32()) //nolint:gosec // a name
	}
	answer, err := recorder.Do(ctx, q)
	v.running, v.after = "", max(v.after, answer.Last)
	if answer.Started {
		v.running, v.since = q.Start, time.Now()
	}
	sent := v.send(ctx, answer.Profiles)
	v.publish(q, answer, sent, err)
}

// outlive returns a context that is done some time after ctx.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

// publish makes the result of a turn visible.
func (v *vm) publish(q recorder.Request, answer recorder.Answer, sent uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := &v.debug
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != d.Error {
		d.Error, d.Changed = text, time.Now()
		if err != nil {
			level.Warn(v.c.opts.Logger).Log("msg", "no allocations and locks of a Java process", "pid", v.pid, "err", err)
		} else {
			level.Info(v.c.opts.Logger).Log("msg", "allocations and locks of a Java process are recorded again", "pid", v.pid)
		}
	}
	d.Recording = v.running
	d.Bytes += uint64(answer.Bytes)
	d.Profiles += sent
	if q.Stop != "" && answer.Bytes > 0 {
		d.Read++
	}
}

// state returns the state for debug info.
func (v *vm) state() DebugVM {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := v.debug
	d.PID = v.pid
	return d
}

// send hands profiles to the receivers, and returns how many they took.
func (v *vm) send(ctx context.Context, profiles []recorder.Encoded) (sent uint64) {
	ctx, cancel := context.WithTimeout(ctx, sendPatience)
	defer cancel()
	for _, p := range profiles {
		err := v.c.fanout.Appender().Append(ctx, v.labelsOf(p.Name), []*pyroscope.RawSample{{RawProfile: p.Raw}})
		if err != nil {
			level.Error(v.c.opts.Logger).Log("msg", "a profile is lost", "pid", v.pid, "profile", p.Name, "err", err)
			continue
		}
		sent++
	}
	return sent
}

// labelsOf returns the labels of a profile.
func (v *vm) labelsOf(name string) labels.Labels {
	all := target.Of(v.order.target).Labels()
	all[target.LabelName] = name
	all[pyroscope.LabelNameDelta] = "false" // recordings have differences
	return labels.FromMap(all)
}
