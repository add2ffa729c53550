package main

import "time"

// measureCost measures the resources that the profiler uses while a workload runs.
func (b *bench) measureCost(i int, w costlyWork) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: b.interval})
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	b.addValue("startup", i, p.startup.Seconds())
	b.addValue("startup cpu", i, p.startupCPU.Seconds())
	time.Sleep(afterStart)
	nice, err := niceValue(p.pid)
	if err != nil {
		return err
	}
	b.addValue("nice", i, float64(nice))
	first, err := readCost(p)
	if err != nil {
		return err
	}
	b.addValue("maps start", i, megabytes(first.maps))
	stop, err := w.start()
	if err != nil {
		return err
	}
	defer stop()
	warm, err := b.costOf(i, p, w.key, first)
	if err != nil {
		return err
	}
	if p.forStacks != "" || p.unjudged {
		return nil // it does not report completeness in this setup
	}
	return b.addComplete(i, p, w.key, warm.at)
}

// costOf records the resources that a profiler uses during a workload that has already started; first is the usage
// before that. It returns the usage after the warm-up.
func (b *bench) costOf(i int, p *profiler, key string, first cost) (warm cost, err error) {
	time.Sleep(b.warm)
	if warm, err = readCost(p); err != nil {
		return warm, err
	}
	time.Sleep(b.costTime())
	last, err := readCost(p)
	if err != nil {
		return warm, err
	}
	b.addCost(i, key, first, warm, last)
	return warm, nil
}

// addComplete records the share of complete user stacks on the whole machine.
func (b *bench) addComplete(i int, p *profiler, key string, since time.Time) error {
	stacks, err := p.sink.stacks()
	if err != nil {
		return err
	}
	var seen share
	for _, s := range stacks {
		if s.hasUserPart() && s.after.After(since) {
			seen.addStacks(s)
		}
	}
	b.addShare("complete "+key, i, seen)
	return nil
}

// afterStart is the time for a profiler to examine the processes that already run.
const afterStart = 2 * time.Second

// costTime is the time for which a profiler's cost is measured: the smallest whole number of report intervals that is
// at least -time, since an agent does most of its work when it reports.
func (o *options) costTime() time.Duration {
	intervals := max(1, (o.time+o.interval-1)/o.interval)
	return intervals * o.interval
}

// cost is the total resource usage of a profiler at a moment.
type cost struct {
	spent
	runs      runs
	rss, peak uint64
	maps      uint64
}

func readCost(p *profiler) (c cost, err error) {
	if c.spent, err = p.spent(); err != nil {
		return c, err
	}
	if c.runs, err = sampleRuns(p.pid); err != nil {
		return c, err
	}
	if c.rss, c.peak, err = memory(p.pid); err != nil {
		return c, err
	}
	c.maps, err = mapMemory(p.pid)
	return c, err
}

// spent is the total CPU time of a profiler at a moment.
type spent struct {
	at         time.Time
	agent, bpf time.Duration
}

func (p *profiler) spent() (s spent, err error) {
	if s.agent, err = cpuTime(p.pid); err != nil {
		return s, err
	}
	s.at = time.Now()
	all, err := bpfPrograms(p.pid)
	for _, program := range all {
		s.bpf += time.Duration(program.info["run_time_ns"])
	}
	return s, err
}

// perMinute returns seconds of CPU time per minute since another moment: of the agent, and of the agent and its BPF
// programs together.
func (s spent) perMinute(since spent) (agent, together float64) {
	minutes := s.at.Sub(since.at).Minutes()
	agent = (s.agent - since.agent).Seconds() / minutes
	return agent, agent + (s.bpf-since.bpf).Seconds()/minutes
}

// addCost records the cost of a workload from its first to its last moment. At warm, the profiler had already seen the
// workload's executables.
func (b *bench) addCost(i int, key string, first, warm, last cost) {
	agent, together := last.perMinute(warm.spent)
	b.addValue("warming cpu "+key, i, (warm.agent - first.agent).Seconds())
	b.addValue("cpu "+key, i, agent)
	b.addValue("together "+key, i, together)
	b.addValue("rss "+key, i, megabytes(last.rss))
	b.addValue("peak "+key, i, megabytes(last.peak))
	b.addValue("maps "+key, i, megabytes(last.maps))
	if d := last.runs.minus(warm.runs); d.count > 0 {
		b.addValue("bpf "+key, i, d.mean()/1e3)
	}
}

func megabytes(bytes uint64) float64 { return float64(bytes) / 1e6 }
