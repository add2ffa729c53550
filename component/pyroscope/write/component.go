// Package write is the component pyroscope.write: it pushes profiles to Grafana
// Pyroscope.
//
// Append puts a profile into one bounded queue for each endpoint, and returns at once. Each endpoint has its own
// goroutines, which retry with growing waits. A full queue drops and counts its oldest profiles.
//
// With a queue block the queues are on disk: profiles that Append has taken are sent in order once the endpoint is
// reachable. If the process is killed, the next run sends them; only the profiles in flight at that moment (one, unless
// max_in_flight is changed) are sent twice. Until Run is called, and while the disk fails, profiles wait in memory.
package write

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-kit/log"

	"github.com/headwater/headwater/component"
)

// Registration returns the registration of pyroscope.write.
func Registration() component.Registration {
	return component.NewRegistration("pyroscope.write", Exports{}, New)
}

// Component is a pyroscope.write component.
type Component struct {
	opts     component.Options
	tuning   tuning
	metrics  *metrics
	receiver *receiver
	built    time.Time

	mu        sync.Mutex
	phase     phase
	endpoints []*endpoint
	warned    []*component.AttributeError // warnings about the newest arguments
	retired   sync.WaitGroup              // endpoints that Update removed and that still flush
}

type phase int

const (
	built phase = iota
	running
	stopped
)

// New returns a component that keeps profiles in its queues until Run sends them.
func New(opts component.Options, args Arguments) (*Component, error) {
	return newComponent(opts, args, defaultTuning())
}

func newComponent(opts component.Options, args Arguments, t tuning) (*Component, error) {
	if opts.Logger == nil {
		opts.Logger = log.NewNopLogger()
	}
	c := &Component{
		opts:     opts,
		tuning:   t,
		metrics:  newMetrics(opts.Registerer),
		receiver: newReceiver(opts.ID),
		built:    time.Now(),
	}
	if err := c.apply(args); err != nil {
		return nil, err
	}
	if opts.OnStateChange != nil {
		opts.OnStateChange(Exports{Receiver: c.receiver})
	}
	return c, nil
}

// Run implements component.Component. After ctx is done it accepts profiles a moment longer, since their senders may be
// stopped at the same time. Then it sends the waiting profiles for a few seconds at most.
func (c *Component) Run(ctx context.Context) error {
	c.mu.Lock()
	c.phase = running
	for _, e := range c.endpoints {
		e.start()
	}
	c.sweep()
	c.mu.Unlock()

	<-ctx.Done()
	time.Sleep(c.tuning.grace)

	c.mu.Lock()
	c.phase = stopped
	c.receiver.close()
	for _, e := range c.endpoints {
		c.retire(e)
	}
	c.mu.Unlock()
	c.retired.Wait()
	return nil
}

// retire stops an endpoint without waiting for it. The caller holds c.mu.
func (c *Component) retire(e *endpoint) {
	c.retired.Go(func() { e.stopWithin(c.tuning.flush) })
}

// queueRoot is the directory of the endpoints' queues.
func (c *Component) queueRoot() string { return filepath.Join(c.opts.DataPath, "queue") }

// sweep removes the queues of endpoints that were removed long ago. The caller holds c.mu.
func (c *Component) sweep() {
	if c.opts.DataPath == "" {
		return
	}
	keep := map[string]bool{}
	maxAge := c.tuning.maxAge
	for _, e := range c.endpoints {
		client := e.client.Load()
		keep[client.key] = true
		if client.queue != nil {
			maxAge = client.queue.MaxAge
		}
	}
	sweep(c.queueRoot(), keep, maxAge, c.opts.Logger)
}

// Update implements component.Component. Endpoints that remain, identified by their URL, keep their queued profiles,
// and use their new options from the next attempt on.
func (c *Component) Update(args component.Arguments) error {
	return c.apply(args.(Arguments))
}

// change is an endpoint after an update.
type change struct {
	endpoint *endpoint // nil for a new endpoint
	client   *client   // nil if the endpoint keeps its client
}

func (c *Component) apply(args Arguments) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes, removed, err := c.planChanges(args)
	if err != nil {
		return err
	}
	endpoints := make([]*endpoint, len(changes))
	for i, change := range changes {
		endpoints[i] = c.carryOut(change)
	}
	if c.phase != stopped {
		c.receiver.update(args.ExternalLabels, endpoints)
	}
	for _, e := range removed {
		if c.phase != stopped {
			c.retire(e)
		}
	}
	c.endpoints = endpoints
	if c.phase == running {
		c.sweep()
	}
	warnings := args.Warnings()
	component.LogWarnings(c.opts.Logger, warnings, c.warned)
	c.warned = warnings
	return nil
}

// planChanges compares args with the current endpoints. It changes no state.
func (c *Component) planChanges(args Arguments) (changes []change, removed []*endpoint, err error) {
	if args.Queue != nil && c.opts.DataPath == "" {
		return nil, nil, errors.New("queue: this program gives its components no directory for data")
	}
	wanted := args.settings()
	changes = make([]change, len(wanted))
	left := slices.Clone(c.endpoints)
	adopt := func(matches func(e *endpoint, by settings) bool) {
		for i, by := range wanted {
			if changes[i].endpoint != nil {
				continue
			}
			if k := slices.IndexFunc(left, func(e *endpoint) bool { return matches(e, by) }); k >= 0 {
				changes[i].endpoint = left[k]
				left = slices.Delete(left, k, k+1)
			}
		}
	}
	adopt((*endpoint).usesSettings) // among endpoints with the same URL, unchanged settings match first
	adopt((*endpoint).fitsSettings)
	for i, by := range wanted {
		if e := changes[i].endpoint; e == nil || !e.usesSettings(by) {
			if changes[i].client, err = newClient(by, c.opts.Tracer); err != nil {
				return nil, nil, err
			}
		}
	}
	return changes, left, nil
}

func (c *Component) carryOut(next change) *endpoint {
	if next.endpoint != nil {
		if next.client != nil {
			next.endpoint.configure(next.client)
		}
		return next.endpoint
	}
	e := newEndpoint(next.client, c.queueRoot(), c.tuning, c.metrics, c.opts.Logger)
	if c.phase == running {
		e.start()
	}
	return e
}

// CurrentHealth implements component.HealthComponent: it is unhealthy while pushes to an endpoint keep failing, and for
// a while after a profile was refused.
func (c *Component) CurrentHealth() component.Health {
	health := component.Health{Health: component.HealthTypeHealthy, UpdateTime: c.built}
	var problems []string
	for _, e := range c.snapshot() {
		problem, since := e.status.problem()
		if broken := e.client.Load().broken; broken != nil {
			problem = "url " + broken.Error()
		}
		if problem != "" {
			problems = append(problems, fmt.Sprintf("endpoint %s: %s", e.name, problem))
		}
		if trouble := e.queue.usage().trouble; trouble != "" {
			problems = append(problems,
				fmt.Sprintf("endpoint %s: profiles wait in memory, for the queue on disk fails: %s", e.name, trouble))
		}
		if since.After(health.UpdateTime) {
			health.UpdateTime = since
		}
	}
	health.Message = "pushing profiles"
	if len(problems) > 0 {
		health.Health = component.HealthTypeUnhealthy
		health.Message = strings.Join(problems, "; ")
	}
	return health
}

func (c *Component) snapshot() []*endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoints
}

// DebugInfo describes a pyroscope.write component.
type DebugInfo struct {
	Endpoints []EndpointInfo `river:"endpoint,block,optional"`
}

// EndpointInfo describes one endpoint. It counts from the creation of the component.
type EndpointInfo struct {
	URL           string `river:"url,attr"`
	Sent          uint64 `river:"sent_profiles,attr"`
	Dropped       uint64 `river:"dropped_profiles,attr"`
	QueueProfiles int    `river:"queue_profiles,attr"`
	QueueBytes    int    `river:"queue_bytes,attr"`
	QueueMemory   int    `river:"queue_memory_profiles,attr"`     // of queue_profiles, those in memory
	QueueDisk     int64  `river:"queue_disk_bytes,attr"`          // of all files
	QueueTrouble  string `river:"queue_disk_error,attr,optional"` // "" if the disk works
	// "" unless the queue grows although the endpoint is healthy
	QueueAdvice string `river:"queue_advice,attr,optional"`
	LastError   string `river:"last_error,attr,optional"` // "" if the last push succeeded
}

// DebugInfo implements component.DebugComponent.
func (c *Component) DebugInfo() interface{} {
	var info DebugInfo
	for _, e := range c.snapshot() {
		info.Endpoints = append(info.Endpoints, e.endpointInfo())
	}
	return info
}

func (e *endpoint) endpointInfo() EndpointInfo {
	held, advice := e.queue.usage(), e.advice()
	e.status.mu.Lock()
	defer e.status.mu.Unlock()
	info := EndpointInfo{
		URL: e.name, Sent: e.status.sent, Dropped: e.status.drops,
		QueueProfiles: held.profiles, QueueBytes: held.bytes, QueueMemory: held.inMemory, QueueDisk: held.diskBytes,
		QueueTrouble: held.trouble,
		QueueAdvice:  advice,
	}
	if e.status.err != nil {
		info.LastError = brief(e.status.err)
	}
	return info
}
