package scrape

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/component/pyroscope"
)

// Arguments configure pyroscope.scrape.
type Arguments struct {
	Targets   []discovery.Target     `river:"targets,attr"`
	ForwardTo []pyroscope.Appendable `river:"forward_to,attr"`

	JobName        string              `river:"job_name,attr,optional"` // of the label job; "": the component's ID
	Params         map[string][]string `river:"params,attr,optional"`
	ScrapeInterval time.Duration       `river:"scrape_interval,attr,optional"`
	ScrapeTimeout  time.Duration       `river:"scrape_timeout,attr,optional"`
	Scheme         string              `river:"scheme,attr,optional"`

	// DeltaProfilingDuration is the duration of a profile that the program takes during the request. 0 means one second
	// less than ScrapeInterval.
	DeltaProfilingDuration time.Duration `river:"delta_profiling_duration,attr,optional"`

	HTTPClient config.HTTPClientConfig `river:",squash"`
	Profiling  Profiling               `river:"profiling_config,block,optional"`
	Clustering Clustering              `river:"clustering,block,optional"`
}

// Clustering is accepted because Grafana Agent has it. There is no cluster here: this program scrapes every target
// itself.
type Clustering struct {
	Enabled bool `river:"enabled,attr"`
}

// Profiling selects the profiles to request.
type Profiling struct {
	PathPrefix        string   `river:"path_prefix,attr,optional"`
	Memory            Profile  `river:"profile.memory,block,optional"`
	Block             Profile  `river:"profile.block,block,optional"`
	Goroutine         Profile  `river:"profile.goroutine,block,optional"`
	Mutex             Profile  `river:"profile.mutex,block,optional"`
	ProcessCPU        Profile  `river:"profile.process_cpu,block,optional"`
	FGProf            Profile  `river:"profile.fgprof,block,optional"`
	GoDeltaProfMemory Profile  `river:"profile.godeltaprof_memory,block,optional"`
	GoDeltaProfMutex  Profile  `river:"profile.godeltaprof_mutex,block,optional"`
	GoDeltaProfBlock  Profile  `river:"profile.godeltaprof_block,block,optional"`
	Custom            []Custom `river:"profile.custom,block,optional"`
}

// Profile configures one kind of profile.
type Profile struct {
	Enabled bool   `river:"enabled,attr,optional"`
	Path    string `river:"path,attr,optional"`
	Delta   bool   `river:"delta,attr,optional"` // the program takes it during the request, which says how long
}

// Custom is a user-defined kind of profile.
type Custom struct {
	Name    string `river:",label"`
	Enabled bool   `river:"enabled,attr"`
	Path    string `river:"path,attr"`
	Delta   bool   `river:"delta,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (p *Profiling) SetToDefault() {
	*p = Profiling{
		Memory:            Profile{Enabled: true, Path: "/debug/pprof/allocs"},
		Block:             Profile{Enabled: true, Path: "/debug/pprof/block"},
		Goroutine:         Profile{Enabled: true, Path: "/debug/pprof/goroutine"},
		Mutex:             Profile{Enabled: true, Path: "/debug/pprof/mutex"},
		ProcessCPU:        Profile{Enabled: true, Path: "/debug/pprof/profile", Delta: true},
		FGProf:            Profile{Path: "/debug/fgprof", Delta: true},
		GoDeltaProfMemory: Profile{Path: "/debug/pprof/delta_heap"},
		GoDeltaProfMutex:  Profile{Path: "/debug/pprof/delta_mutex"},
		GoDeltaProfBlock:  Profile{Path: "/debug/pprof/delta_block"},
	}
}

// kind is one kind of profile to request.
type kind struct {
	name  string // value of the label __name__
	block string // profile.NAME, as it is configured
	Profile
	// cumulative: the program counts from its start; the component sends the difference from the previous profile.
	cumulative bool
}

// enabled returns the kinds of profiles to request, sorted by name.
func (p *Profiling) enabled() []kind {
	all := []kind{
		{"memory", "memory", p.Memory, true}, {"block", "block", p.Block, true}, {"mutex", "mutex", p.Mutex, true},
		{"goroutine", "goroutine", p.Goroutine, false}, {"process_cpu", "process_cpu", p.ProcessCPU, false},
		{"fgprof", "fgprof", p.FGProf, false},
		// Profiles of godeltaprof are differences already, and get the usual names.
		{"memory", "godeltaprof_memory", p.GoDeltaProfMemory, false},
		{"mutex", "godeltaprof_mutex", p.GoDeltaProfMutex, false},
		{"block", "godeltaprof_block", p.GoDeltaProfBlock, false},
	}
	for _, c := range p.Custom {
		all = append(all, kind{c.Name, fmt.Sprintf("custom %q", c.Name),
			Profile{Enabled: c.Enabled, Path: c.Path, Delta: c.Delta}, false})
	}
	all = slices.DeleteFunc(all, func(k kind) bool { return !k.Enabled })
	slices.SortStableFunc(all, func(a, b kind) int {
		if a.name != b.name {
			return map[bool]int{true: -1, false: 1}[a.name < b.name]
		}
		return 0
	})
	return all
}

// twice returns a warning for each pair of enabled kinds with the same name: a server adds up their values.
func (p *Profiling) twice() []string {
	var all []string
	for i, kinds := 0, p.enabled(); i < len(kinds); i++ {
		for _, other := range kinds[i+1:] {
			if k := kinds[i]; k.name == other.name {
				all = append(all, fmt.Sprintf("profile.%s and profile.%s are both sent as %q, so the server adds "+
					"their values up: set enabled = false in one", k.block, other.block, k.name))
			}
		}
	}
	return all
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{Scheme: "http", ScrapeInterval: 15 * time.Second, ScrapeTimeout: 10 * time.Second}
	a.HTTPClient.SetToDefault()
	a.Profiling.SetToDefault()
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	switch {
	case a.ScrapeTimeout <= 0:
		return component.Refuse("scrape_timeout", "must be greater than 0")
	case a.ScrapeInterval <= 0:
		return component.Refuse("scrape_interval", "must be greater than 0")
	case a.Scheme != "http" && a.Scheme != "https":
		return component.Refuse("scheme", "must be http or https, got %q", a.Scheme)
	case a.DeltaProfilingDuration != 0 && a.DeltaProfilingDuration < time.Second:
		return component.Refuse("delta_profiling_duration", "must be at least 1 second")
	}
	if err := pyroscope.CheckTargets("targets", a.Targets); err != nil {
		return err
	}
	for _, k := range a.Profiling.enabled() {
		if !k.Delta {
			continue
		}
		if a.ScrapeInterval < 2*time.Second {
			return errors.New("scrape_interval must be at least 2 seconds when using delta profiling")
		}
		if a.DeltaProfilingDuration >= a.ScrapeInterval {
			return errors.New("scrape_interval must be longer than delta_profiling_duration")
		}
	}
	return a.HTTPClient.Validate()
}

// Warnings implements component.Warner.
func (a *Arguments) Warnings() []*component.AttributeError {
	if !a.Clustering.Enabled {
		return nil
	}
	return []*component.AttributeError{component.NoEffect("clustering.enabled",
		"Headwater has no cluster, so each replica scrapes every target, and profiles arrive once for each")}
}

// deltaSeconds is the requested duration of profiles that the program takes during the request.
func (a *Arguments) deltaSeconds() int {
	if a.DeltaProfilingDuration > 0 {
		return int(a.DeltaProfilingDuration / time.Second)
	}
	return int(a.ScrapeInterval/time.Second) - 1
}

// timeout is the time limit of a request for k.
func (a *Arguments) timeout(k kind) time.Duration {
	if k.Delta {
		return time.Duration(a.deltaSeconds())*time.Second + a.ScrapeTimeout
	}
	return a.ScrapeTimeout
}

func (a *Arguments) query() url.Values {
	out := url.Values{}
	maps.Copy(out, a.Params)
	return out
}
