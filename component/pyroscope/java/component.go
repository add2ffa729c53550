// Package java is the component pyroscope.java: CPU time, allocations and waiting for locks of Java VMs. CPU profiles
// come from the profiler of pyroscope.ebpf, allocations and locks from the VM's own flight recorder. The component puts
// no library into a VM.
package java

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/component/pyroscope/ebpf"
	"github.com/headwater/headwater/ebpf/process/target"
)

// Name is the component's name in River.
const Name = "pyroscope.java"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration { return component.NewRegistration(Name, nil, New) }

// Component is a running pyroscope.java block. Its methods are safe for concurrent use.
type Component struct {
	opts    component.Options
	cpu     *ebpf.Component
	fanout  *pyroscope.Fanout
	updates *mailbox.Mailbox[Arguments]
	turns   chan struct{} // held while a VM is asked: a slot for each at the same time

	mu     sync.Mutex
	warned []*component.AttributeError // warnings about the newest arguments
	vms    map[int]*vm                 // by PID
	runs   bool                        // the CPU profiler
}

// turnsAtOnce is how many VMs are asked at the same time.
const turnsAtOnce = 2

var (
	_ component.DebugComponent  = (*Component)(nil)
	_ component.HealthComponent = (*Component)(nil)
	_ component.HTTPComponent   = (*Component)(nil)
)

// New makes a component that profiles once Run is called.
func New(opts component.Options, args Arguments) (*Component, error) {
	args.Targets = services(args.Targets)
	c := &Component{
		opts: opts, fanout: pyroscope.NewFanout(args.ForwardTo, opts.ID, nil), // the CPU profiler's has the metrics
		updates: mailbox.New[Arguments](), turns: make(chan struct{}, turnsAtOnce), vms: map[int]*vm{},
	}
	var err error
	c.cpu, err = ebpf.New(opts, ebpf.Arguments{ForwardTo: []pyroscope.Appendable{c.fanout}, Settings: args.cpuSettings()})
	if err != nil {
		return nil, err
	}
	c.take(args)
	return c, nil
}

// Update implements component.Component. It never blocks; Run applies the newest arguments soon afterwards.
func (c *Component) Update(args component.Arguments) error {
	fresh, ok := args.(Arguments)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", Name, args)
	}
	fresh.Targets = services(fresh.Targets)
	c.fanout.UpdateChildren(fresh.ForwardTo)
	c.take(fresh)
	return c.cpu.Update(ebpf.Arguments{ForwardTo: []pyroscope.Appendable{c.fanout}, Settings: fresh.cpuSettings()})
}

func (c *Component) take(args Arguments) {
	warnings := args.Warnings()
	c.mu.Lock()
	component.LogWarnings(c.opts.Logger, warnings, c.warned)
	c.warned = warnings
	c.mu.Unlock()
	c.updates.Send(args)
}

// Run implements component.Component. It returns an error if the CPU profiler cannot be started.
func (c *Component) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var failed error
	for {
		select {
		case <-ctx.Done():
			c.follow(ctx, Arguments{}, &running)
			running.Wait()
			return failed
		case args := <-c.updates.Receive():
			if args.Profiling.CPU && c.setRunning() {
				running.Go(func() {
					if err := c.cpu.Run(ctx); err != nil {
						failed = err
						stop(err)
					}
				})
			}
			c.follow(ctx, args, &running)
		}
	}
}

// setRunning notes that the CPU profiler runs, and reports whether it did not before.
func (c *Component) setRunning() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.runs
	c.runs = true
	return !was
}

// follow starts recordings of new VMs, and ends the recordings of VMs that the targets no longer name.
func (c *Component) follow(ctx context.Context, args Arguments, running *sync.WaitGroup) {
	wanted := map[int]map[string]string{}
	if args.Profiling.Alloc != "" || args.Profiling.Lock != "" {
		for _, t := range args.Targets {
			pid, err := strconv.Atoi(t[target.LabelProcessPID])
			if err != nil || pid <= 0 {
				level.Warn(c.opts.Logger).Log("msg", "no allocations and locks of a target without "+target.LabelProcessPID,
					"target", target.Of(t))
				continue
			}
			wanted[pid] = t
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid, v := range c.vms {
		if wanted[pid] == nil {
			v.stop()
			delete(c.vms, pid)
		}
	}
	for pid, t := range wanted {
		if v := c.vms[pid]; v != nil {
			v.updates.Send(order{args, t})
			continue
		}
		own, stop := context.WithCancel(ctx)
		v := &vm{c: c, pid: pid, stop: stop, updates: mailbox.New[order]()}
		v.updates.Send(order{args, t})
		c.vms[pid] = v
		running.Go(func() { v.follow(own) })
	}
}

// CurrentHealth implements component.HealthComponent: it is unhealthy if the CPU profiler is, or if a VM gives no
// recordings.
func (c *Component) CurrentHealth() component.Health {
	c.mu.Lock()
	runs := c.runs
	c.mu.Unlock()
	health := component.Health{Health: component.HealthTypeHealthy, Message: "no CPU profiles are wanted"}
	if runs {
		health = c.cpu.CurrentHealth()
	}
	var failing []DebugVM
	all := c.debugVMs()
	for _, v := range all {
		if v.Error != "" {
			failing = append(failing, v)
		}
	}
	if len(failing) == 0 {
		return health
	}
	first := failing[0]
	return component.LeastHealthy(health, component.Health{
		Health: component.HealthTypeUnhealthy, UpdateTime: first.Changed,
		Message: fmt.Sprintf("no allocations and locks of %d of %d Java processes, such as process %d: %s", len(failing),
			len(all), first.PID, first.Error),
	})
}

// DebugInfo is the state of the component, for River.
type DebugInfo struct {
	VMs []DebugVM      `river:"vm,block,optional"`
	CPU ebpf.DebugInfo `river:"cpu,block,optional"`
}

// DebugVM is the state of the recordings of one VM.
type DebugVM struct {
	PID       int       `river:"pid,attr"`
	Service   string    `river:"service_name,attr"`
	Recording string    `river:"recording,attr,optional"` // name of the one that runs
	Read      uint64    `river:"recordings_read,attr"`
	Bytes     uint64    `river:"recording_bytes,attr"`
	Profiles  uint64    `river:"profiles,attr"`
	Error     string    `river:"error,attr,optional"` // why the last turn failed
	Changed   time.Time `river:"changed,attr,optional"`
}

// DebugInfo implements component.DebugComponent.
func (c *Component) DebugInfo() interface{} {
	info := DebugInfo{VMs: c.debugVMs()}
	if cpu, ok := c.cpu.DebugInfo().(ebpf.DebugInfo); ok {
		info.CPU = cpu
	}
	return info
}

func (c *Component) debugVMs() (all []DebugVM) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.vms {
		all = append(all, v.state())
	}
	slices.SortFunc(all, func(a, b DebugVM) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// Handler implements component.HTTPComponent with the page of the CPU profiles.
func (c *Component) Handler() http.Handler { return c.cpu.Handler() }
