// Package scrape is the component pyroscope.scrape: it fetches profiles over HTTP, such as the profiles that Go
// programs serve below /debug/pprof.
package scrape

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-kit/log/level"
	promconfig "github.com/prometheus/common/config"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
	"github.com/headwater/headwater/component/pyroscope"
)

// Name is the component's name in River.
const Name = "pyroscope.scrape"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration { return component.NewRegistration(Name, nil, New) }

// Component is a running pyroscope.scrape block. Its methods are safe for
// concurrent use.
type Component struct {
	opts    component.Options
	fanout  *pyroscope.Fanout
	updates *mailbox.Mailbox[Arguments]

	mu     sync.Mutex
	built  time.Time
	warned []*component.AttributeError // warnings about the newest arguments
	twice  []string                    // warnings about kinds that count the same values
	job    string
	loops  map[string]*loop // by the key of their endpoint
	bad    []error          // targets that cannot be scraped
}

// New makes a component that scrapes once Run is called.
func New(opts component.Options, args Arguments) (*Component, error) {
	c := &Component{
		opts:    opts,
		fanout:  pyroscope.NewFanout(args.ForwardTo, opts.ID, opts.Registerer),
		updates: mailbox.New[Arguments](),
		loops:   map[string]*loop{},
		built:   time.Now(),
	}
	return c, c.Update(args)
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error {
	fresh, ok := args.(Arguments)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", Name, args)
	}
	if _, err := newClient(fresh); err != nil {
		return err
	}
	fresh.JobName = cmp.Or(fresh.JobName, c.opts.ID)
	c.mu.Lock()
	warnings := fresh.Warnings()
	component.LogWarnings(c.opts.Logger, warnings, c.warned)
	c.warned = warnings
	c.mu.Unlock()
	c.fanout.UpdateChildren(fresh.ForwardTo)
	c.updates.Send(fresh)
	return nil
}

func newClient(args Arguments) (*http.Client, error) {
	return promconfig.NewClientFromConfig(args.HTTPClient.Convert(), Name)
}

// Run implements component.Component. Endpoints that new arguments do not change keep their schedule and their previous
// profile.
func (c *Component) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var args Arguments
	var client *http.Client
	for {
		select {
		case <-ctx.Done():
			return nil
		case fresh := <-c.updates.Receive():
			if client == nil || !sameButTargets(args, fresh) {
				if client != nil {
					client.CloseIdleConnections()
				}
				var err error
				if client, err = newClient(fresh); err != nil { // Update has checked this
					return err
				}
				c.stopLoops(nil)
			}
			args = fresh
			c.apply(ctx, args, client, &running)
		}
	}
}

// sameButTargets reports whether all running loops can continue unchanged.
func sameButTargets(a, b Arguments) bool {
	a.Targets, a.ForwardTo, b.Targets, b.ForwardTo = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

// apply stops the loops of removed endpoints and starts loops for new ones.
func (c *Component) apply(ctx context.Context, args Arguments, client *http.Client, running *sync.WaitGroup) {
	wanted, bad := endpoints(args)
	for _, err := range bad {
		level.Error(c.opts.Logger).Log("msg", "target left out", "err", err)
	}
	twice := args.Profiling.twice()
	for _, what := range twice {
		level.Warn(c.opts.Logger).Log("msg", what)
	}
	c.stopLoops(wanted)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad, c.twice, c.job = bad, twice, args.JobName
	for key, e := range wanted {
		if c.loops[key] != nil {
			continue
		}
		loopCtx, cancel := context.WithCancel(ctx)
		l := &loop{
			endpoint: e, interval: args.ScrapeInterval, timeout: args.timeout(e.kind),
			client: client, fanout: c.fanout, logger: c.opts.Logger, cancel: cancel,
		}
		c.loops[key] = l
		running.Go(func() { l.scrapeUntilDone(loopCtx) })
	}
}

// stopLoops stops the loops whose endpoint is not in wanted.
func (c *Component) stopLoops(wanted map[string]endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, l := range c.loops {
		if _, stays := wanted[key]; !stays {
			l.cancel()
			delete(c.loops, key)
		}
	}
}

// CurrentHealth implements component.HealthComponent: it is unhealthy while a receiver refuses the profiles of an
// endpoint.
func (c *Component) CurrentHealth() component.Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	health := component.Health{Health: component.HealthTypeHealthy, UpdateTime: c.built}
	messages := append([]string{fmt.Sprintf("scraping %d endpoints", len(c.loops))}, c.twice...)
	for _, key := range slices.Sorted(maps.Keys(c.loops)) {
		if err := c.loops[key].refusal(); err != nil {
			health.Health = component.HealthTypeUnhealthy
			messages = []string{fmt.Sprintf("a receiver refuses profiles of %s: %v", c.loops[key].endpoint.labels, err)}
			break
		}
	}
	health.Message = strings.Join(messages, "; ")
	return health
}

// DebugInfo is what the component reports about itself in River.
type DebugInfo struct {
	Targets []TargetStatus `river:"target,block,optional"`
	Errors  []string       `river:"errors,attr,optional"` // of targets that cannot be scraped
	// kinds of profiles that count the same values
	CountedTwice []string `river:"counted_twice,attr,optional"`
}

// TargetStatus is the result of the last request to one endpoint.
type TargetStatus struct {
	JobName            string            `river:"job,attr"`
	URL                string            `river:"url,attr"`
	Health             string            `river:"health,attr"` // unknown, up or down
	Labels             map[string]string `river:"labels,attr"`
	LastError          string            `river:"last_error,attr,optional"`
	LastScrape         time.Time         `river:"last_scrape,attr"`
	LastScrapeDuration time.Duration     `river:"last_scrape_duration,attr,optional"`
}

// DebugInfo implements component.DebugComponent.
func (c *Component) DebugInfo() interface{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	info := DebugInfo{CountedTwice: c.twice}
	for _, err := range c.bad {
		info.Errors = append(info.Errors, err.Error())
	}
	for _, key := range slices.Sorted(maps.Keys(c.loops)) {
		info.Targets = append(info.Targets, c.loops[key].describe(c.job))
	}
	return info
}

func (l *loop) describe(job string) TargetStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := TargetStatus{
		JobName: job, Health: "unknown", Labels: l.endpoint.set.Map(),
		LastScrape: l.status.at, LastScrapeDuration: l.status.took,
	}
	if u, err := url.Parse(l.endpoint.url); err == nil {
		t.URL = u.Redacted()
	}
	switch {
	case l.status.err != nil:
		t.Health, t.LastError = "down", l.status.err.Error()
	case !l.status.at.IsZero():
		t.Health = "up"
	}
	return t
}
