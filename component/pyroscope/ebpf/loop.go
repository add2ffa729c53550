package ebpf

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-kit/log/level"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/flame/server"
)

// A session that has failed is restarted after minRetry, then after waits that double up to maxRetry.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

// loop is one call of Run. Run's goroutine calls all its methods.
type loop struct {
	ctx     context.Context // of Run
	c       *Component
	args    Settings     // of collecting
	applied ebpf.Options // of the session
	sender  *sender

	session session     // nil between sessions
	unhook  func() bool // keeps the end of ctx from stopping session
	timer   *time.Timer
	due     time.Time // of the next round, or of the next start
	began   time.Time // start of the round in progress
	retry   time.Duration
	past    ebpf.Stats      // of the previous sessions
	logged  map[string]bool // errors already logged
	idle    bool            // the last round yielded no profile
	overdue bool            // the last round was overdue
	builds  buildLog

	governor governor
	memory   memory

	dueBefore, lostBefore uint64 // samples of the session that were due, and lost, at the end of the last round

	sessionErr, updateErr, collectErr, refusedErr error
}

func newLoop(ctx context.Context, c *Component, args Settings) *loop {
	return &loop{ctx: ctx, c: c, args: args, sender: newSender(c.fanout), timer: time.NewTimer(time.Hour), retry: minRetry,
		logged: map[string]bool{}}
}

// runUntilDone handles events until ctx is done.
func (l *loop) runUntilDone(ctx context.Context) {
	for {
		var failed <-chan struct{}
		if l.session != nil {
			failed = l.session.Done()
		}
		select {
		case <-ctx.Done():
			return
		case args := <-l.c.updates.Receive():
			l.update(args)
		case <-failed:
			l.sessionFailed()
		case <-l.timer.C:
			l.nextTick()
		}
	}
}

// close collects one last time, hands over the waiting profiles and stops the profiler.
func (l *loop) close() {
	l.timer.Stop()
	if l.session != nil {
		l.collect()
		if err := l.session.Close(); err != nil {
			level.Error(l.c.opts.Logger).Log("msg", "stopping the profiler", "err", err)
		}
		l.observe(time.Now()) // figures that are newer than the last round
		l.session = nil
	}
	l.sender.close()
	l.reportSending()
	l.c.page.CloseDisk(historyPatience)
	if l.sessionErr == nil {
		l.c.SetHealth(component.HealthTypeExited, "stopped")
	}
}

// startSession starts the profiler with the newest arguments.
func (l *loop) startSession() error {
	l.governor.started()
	options := l.options()
	s, err := l.c.start(options)
	l.sessionErr = err
	if err != nil {
		l.c.metrics.count(func(n *counts) { n.failures++ })
		l.c.SetHealth(component.HealthTypeUnhealthy, err.Error())
		return err
	}
	l.session, l.applied, l.updateErr = s, options, nil
	// At a high rate the last round would take long while sampling continues.
	l.unhook = context.AfterFunc(l.ctx, func() {
		if err := s.StopSampling(); err != nil {
			level.Error(l.c.opts.Logger).Log("msg", "stopping the sampling", "err", err)
		}
	})
	l.began = time.Now()
	l.schedule(l.began.Add(l.args.CollectInterval))

	l.dueBefore, l.lostBefore = 0, 0
	l.c.metrics.newSession()
	l.c.status.publish(func(s *status) { s.started = l.began })
	l.publishRate()
	l.reportHealth(0, 0)
	return nil
}

// latePause is the pause before a round whose predecessor took longer than the interval: the interval divided by
// latePause.
const latePause = 4

func (l *loop) schedule(due time.Time) {
	l.due = due
	l.timer.Reset(time.Until(due))
}

// nextTick runs the next round or restart.
func (l *loop) nextTick() {
	if l.session == nil {
		l.restart()
		return
	}
	if !reflect.DeepEqual(l.options(), l.applied) {
		l.applyOptions() // the previous attempt failed
	}
	l.collect()
	l.govern()
	l.keepMemory()
	next := l.due.Add(l.args.CollectInterval)
	if now := time.Now(); next.Before(now) { // collecting takes longer than the interval
		next = now.Add(l.args.CollectInterval / latePause)
	}
	l.schedule(next)
}

// update applies new arguments. If the session cannot apply them now, each round tries again.
func (l *loop) update(args Settings) {
	old := l.args
	l.args = args
	l.c.keepHistoryOnDisk(args)
	if l.session == nil {
		return // restart uses them
	}
	if args.CollectInterval != old.CollectInterval {
		l.schedule(l.began.Add(args.CollectInterval))
	}
	l.applyOptions()
}

// options returns the options of the arguments, with the governor's rates and the memory bounds.
func (l *loop) options() ebpf.Options {
	l.governor.setLimit(l.args.OverheadLimit)
	l.memory.setLimit(int64(l.args.MemoryLimit), mostCaches(&l.args))
	options := l.args.options()
	l.governor.govern(&options)
	l.memory.keepLimits(&options)
	return options
}

// govern adapts the sampling rates to the cost of the round that has just ended.
func (l *loop) govern() {
	changed := l.governor.round(spent{
		at: l.began, agent: l.c.cpuTime(), bpf: time.Duration(l.session.Stats().BPFTime) * time.Microsecond,
	})
	if changed {
		l.applyOptions()
		level.Info(l.c.opts.Logger).Log("msg", "the rate of sampling follows overhead_limit",
			"sample_rate", l.applied.SampleRate, "of", l.args.SampleRate, "cost", l.governor.cost)
	}
	l.publishRate()
}

// keepMemory adapts the caches' bounds to the memory taken at the end of the round.
func (l *loop) keepMemory() {
	taken := l.memoryTaken()
	if l.memory.exceeded(taken) {
		l.c.page.DropViews()
		debug.FreeOSMemory() // free memory that the collector has not returned yet
		taken = l.memoryTaken()
	}
	stats := l.session.Stats()
	if l.memory.round(taken, caches{int64(stats.TableBytes), int64(stats.SymbolBytes), l.c.page.Bytes()}) {
		l.applyOptions()
		level.Info(l.c.opts.Logger).Log("msg", "the limits of caches follow memory_limit", "taken", mebibytes(taken),
			"limit", l.args.MemoryLimit, "tables", mebibytes(l.memory.bound[tableCache]),
			"symbols", mebibytes(l.memory.bound[symbolCache]), "profiles", mebibytes(l.memory.bound[historyCache]))
	}
	l.c.page.SetMaxBytes(l.memory.bound[historyCache])
	if l.memory.exceeded(taken) {
		debug.FreeOSMemory() // return the evicted memory
	}
	l.c.status.publish(func(s *status) { s.memory = taken })
}

// memoryTaken returns the memory of this process and of unwind tables in the kernel, in bytes.
func (l *loop) memoryTaken() int64 { return l.c.memory() + int64(l.session.Stats().TableBytes) }

// publishRate publishes the current sampling rate and the cost of the last round.
func (l *loop) publishRate() {
	rate, cost := l.applied.SampleRate, l.governor.cost
	l.c.status.publish(func(s *status) { s.rate, s.cost = rate, cost })
}

func (l *loop) applyOptions() {
	options := l.options()
	if reflect.DeepEqual(options, l.applied) {
		l.updateErr = nil
		return
	}
	if err := l.session.Update(options); err != nil {
		l.updateErr = fmt.Errorf("applying new arguments: %w", err)
		level.Error(l.c.opts.Logger).Log("msg", "the profiler keeps its old arguments", "err", err)
	} else {
		l.updateErr, l.applied = nil, options
		l.publishRate()
	}
	l.reportHealth(0, 0)
}

// sessionFailed saves the data of a session that ended on its own, and schedules a restart.
func (l *loop) sessionFailed() {
	err := l.session.Err()
	if err == nil {
		err = errors.New("it ended without a reason")
	}
	l.sessionErr = fmt.Errorf("the profiler failed: %w", err)
	l.collect()
	l.unhook()
	if err := l.session.Close(); err != nil {
		level.Error(l.c.opts.Logger).Log("msg", "stopping the failed profiler", "err", err)
	}
	l.observe(time.Now()) // figures that are newer than the last round
	l.past = counter.Sum(ebpf.Counters(), l.past, l.session.Stats())
	l.session = nil
	l.c.status.publish(func(s *status) { s.started = time.Time{} })
	l.c.metrics.count(func(n *counts) { n.failures++ })
	l.retryLater()
}

func (l *loop) restart() {
	if err := l.startSession(); err != nil {
		l.sessionErr = fmt.Errorf("starting the profiler again: %w", err)
		l.retryLater()
		return
	}
	level.Info(l.c.opts.Logger).Log("msg", "the profiler runs again")
}

func (l *loop) retryLater() {
	level.Error(l.c.opts.Logger).Log("msg", "not profiling", "err", l.sessionErr, "retry_in", l.retry)
	l.reportHealth(0, 0)
	l.schedule(time.Now().Add(l.retry))
	l.retry = min(2*l.retry, maxRetry)
}

// collect ends a round: it takes the session's profiles, keeps them for the page
// and sends them on.
func (l *loop) collect() {
	began, now := l.began, time.Now()
	l.began = now
	finished := l.watchRound()
	profiles, err := l.session.Collect()
	l.c.metrics.count(func(n *counts) { n.rounds++ })
	l.collectErr = nil
	if err != nil {
		l.collectErr = fmt.Errorf("collecting profiles: %w", err)
		l.c.metrics.count(func(n *counts) { n.failures++ })
		level.Error(l.c.opts.Logger).Log("msg", "collecting profiles", "err", err)
	} else if l.sessionErr == nil {
		l.retry = minRetry
	}

	l.idle = len(profiles) == 0
	shown := make([]server.Profile, 0, len(profiles))
	var withUser, complete uint64
	due, lost := l.lostSamples()
	for _, p := range profiles {
		if due > 0 && p.Kind == kind.CPU {
			pprof.SetLost(p.Pprof, due, lost)
		}
		raw, err := l.c.encode(p.Pprof)
		if err != nil {
			level.Error(l.c.opts.Logger).Log("msg", "a profile is lost", "service_name", p.Labels["service_name"], "err", err)
			l.c.metrics.count(func(n *counts) { n.loseProfiles(lostToEncoding, 1) })
			continue
		}
		l.c.metrics.addProfile(p.Labels["service_name"], len(raw), p.Samples)
		level.Debug(l.c.opts.Logger).Log("msg", "collected a profile", "service_name", p.Labels["service_name"],
			"samples", p.Samples, "complete", p.Complete, "of", p.WithUser, "processes", len(p.Processes), "bytes", len(raw))
		l.sender.addProfile(outgoing{labels: labels.FromMap(p.Labels), raw: raw})
		shown = append(shown, shownProfile(p, raw))
		withUser, complete = withUser+p.WithUser, complete+p.Complete
	}
	level.Debug(l.c.opts.Logger).Log("msg", "collected", "profiles", len(shown), "of_time", now.Sub(began),
		"took", time.Since(now))
	l.c.page.Add(began, now, shown)
	changes, _ := l.c.page.Changes()
	l.builds.logChanges(l.c.opts.Logger, changes)
	l.observe(now)
	l.reportSending()
	finished()
	l.reportHealth(withUser, complete)
}

// lostSamples returns how many samples of this host were due in the round, and how many were lost.
func (l *loop) lostSamples() (due, lost uint64) {
	stats := l.session.Stats()
	var sum uint64
	for _, n := range stats.Lost {
		sum += n
	}
	due, lost = stats.Expected-min(l.dueBefore, stats.Expected), sum-min(l.lostBefore, sum)
	l.dueBefore, l.lostBefore = stats.Expected, sum
	return due, lost
}

// observe publishes the session's figures.
func (l *loop) observe(now time.Time) {
	stats := l.session.Stats()
	l.c.metrics.observe(stats, l.past, now)
	l.logErrors(stats.Errors)
}

// reportSending counts and logs the profiles that could not be sent since the last round.
func (l *loop) reportSending() {
	t := l.sender.takeTroubles()
	l.c.metrics.count(func(n *counts) {
		n.dropped += t.dropped
		n.loseProfiles(lostToSlowness, t.dropped)
		n.loseProfiles(lostToRefusal, t.failed)
	})
	if t.dropped > 0 {
		level.Warn(l.c.opts.Logger).Log("msg", "receivers are too slow: profiles dropped", "profiles", t.dropped)
	}
	switch {
	case t.failed > 0:
		l.refusedErr = fmt.Errorf("a receiver refused %s of the last interval: %w", plural(int(t.failed), "profile"), t.err)
	case t.passed > 0:
		l.refusedErr = nil
	}
	if t.failed > 0 {
		level.Error(l.c.opts.Logger).Log("msg", "ebpf pprof write", "profiles", t.failed, "err", t.err)
	}
}

// Reasons why profiles do not reach a receiver.
const (
	lostToEncoding = "not_encoded"
	lostToSlowness = "receivers_too_slow"
	lostToRefusal  = "refused"
)

// reportHealth sets the component's health; withUser and complete count samples of the round just collected.
func (l *loop) reportHealth(withUser, complete uint64) {
	if err := errors.Join(l.sessionErr, l.updateErr, l.collectErr, l.refusedErr); err != nil {
		l.c.SetHealth(component.HealthTypeUnhealthy, err.Error())
		return
	}
	if l.idle && l.args.TargetsOnly {
		if message := l.args.unmatched(); message != "" {
			l.c.SetHealth(component.HealthTypeUnhealthy, message)
			return
		}
	}
	var stats ebpf.Stats
	if l.session != nil {
		stats = l.session.Stats()
	}
	if message := l.unattached(&stats); message != "" {
		l.c.SetHealth(component.HealthTypeUnhealthy, message)
		return
	}
	message := profiled(l.args)
	if waits := l.waits(); waits != "" {
		message += "; names are missing: " + waits
	}
	if governed := l.governor.String(); governed != "" {
		message += "; " + governed
	}
	if kept := l.memory.String(); kept != "" {
		message += "; " + kept
	}
	if paused := l.paused(&stats); paused != "" {
		message += "; " + paused
	}
	if trouble := l.c.historyTrouble(); trouble != "" {
		message += "; " + trouble
	}
	if withUser > 0 {
		message += fmt.Sprintf("; %d of %d user stacks of the last interval are complete", complete, withUser)
	}
	l.c.SetHealth(component.HealthTypeHealthy, message)
}

// unattached says which configured samples are missing because their probes are not attached, and why; "" if all probes
// are.
func (l *loop) unattached(stats *ebpf.Stats) string {
	var missing []string
	if p := stats.Probes; p.Failed > 0 {
		missing = append(missing, fmt.Sprintf("%d of the %d probe_links are not attached: %v",
			p.Failed, len(l.args.probes()), p.Failure))
	}
	if h := stats.Heap; h.Failed > 0 && h.Files == 0 {
		missing = append(missing, fmt.Sprintf("memory in use is not sampled: %v", h.Failure))
	}
	return strings.Join(missing, "; ")
}

// paused says which processes' memory is temporarily not sampled, and why; "" if none is paused.
func (l *loop) paused(stats *ebpf.Stats) string {
	paused := stats.Heap.Paused
	if len(paused) == 0 {
		return ""
	}
	of := "1 process"
	if len(paused) > 1 {
		of = fmt.Sprintf("%d processes", len(paused))
	}
	return fmt.Sprintf("memory of %s is not sampled for a while, to keep heap's overhead_limit of %g %%: %s",
		of, l.args.Heap.OverheadLimit, paused[0])
}

// waits says which files the profiler waits for.
func (l *loop) waits() string {
	if l.session == nil {
		return ""
	}
	return waitsFor(l.session.Waiting())
}

// profiled describes in words what the arguments select.
func profiled(args Settings) string {
	targets := len(usableTargets(args))
	switch {
	case !args.TargetsOnly && targets == 0:
		return "profiling all processes"
	case !args.TargetsOnly:
		return fmt.Sprintf("profiling %s and all other processes", plural(targets, "target"))
	case targets == 0:
		return "profiling nothing: targets_only is true and no target names a process or a container"
	default:
		return "profiling " + plural(targets, "target")
	}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
