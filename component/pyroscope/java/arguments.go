package java

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/component/pyroscope/ebpf"
	profiler "github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/process/target"
)

// Arguments configure pyroscope.java. The attributes are the same as in the Grafana Agent and in Alloy.
type Arguments struct {
	Targets   []map[string]string    `river:"targets,attr"`
	ForwardTo []pyroscope.Appendable `river:"forward_to,attr"`
	TmpDir    string                 `river:"tmp_dir,attr,optional"` // in a VM's root directory
	Profiling Profiling              `river:"profiling_config,block,optional"`

	// Dist is where Alloy finds async-profiler. It has no effect, because this component puts no library into a VM.
	Dist string `river:"dist,attr,optional"`
}

// Profiling is the block profiling_config.
type Profiling struct {
	Interval   time.Duration `river:"interval,attr,optional"`
	SampleRate int           `river:"sample_rate,attr,optional"` // of CPU profiles, in samples per second
	Alloc      string        `river:"alloc,attr,optional"`       // "" records no allocations; other values record all
	Lock       string        `river:"lock,attr,optional"`        // shortest time of waiting; "" records none
	CPU        bool          `river:"cpu,attr,optional"`
	Event      string        `river:"event,attr,optional"` // of async-profiler
	PerThread  bool          `river:"per_thread,attr,optional"`
	LogLevel   string        `river:"log_level,attr,optional"` // of async-profiler; without effect
	Quiet      bool          `river:"quiet,attr,optional"`     // of async-profiler; without effect
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{TmpDir: "/tmp"}
	a.Profiling.SetToDefault()
}

// SetToDefault implements river.Defaulter.
func (p *Profiling) SetToDefault() {
	*p = Profiling{
		Interval: time.Minute, SampleRate: 100, Alloc: "10ms", Lock: "512k", CPU: true, Event: "itimer", LogLevel: "INFO",
	}
}

// Validate implements river.Validator. Its errors are of type *component.AttributeError.
func (a *Arguments) Validate() error {
	if err := pyroscope.CheckTargets("targets", a.Targets); err != nil {
		return err
	}
	if !strings.HasPrefix(a.TmpDir, "/") || strings.ContainsAny(a.TmpDir, " \t\n\"'\x00") {
		return component.Refuse("tmp_dir", "must be an absolute path without spaces and quotes, got %q", a.TmpDir)
	}
	return a.Profiling.validate()
}

// leastInterval is the shortest interval. A recording that starts or ends costs a VM some milliseconds.
const leastInterval = time.Second

func (p *Profiling) validate() error {
	switch {
	case p.Interval < leastInterval:
		return component.Refuse("profiling_config.interval", "must be at least %s, got %s", leastInterval, p.Interval)
	case p.CPU && (p.SampleRate < profiler.MinSampleRate || p.SampleRate > profiler.MaxSampleRate):
		return component.Refuse("profiling_config.sample_rate", "must be between %d and %d samples per second, got %d",
			profiler.MinSampleRate, profiler.MaxSampleRate, p.SampleRate)
	}
	if _, err := quantity(p.Alloc); err != nil {
		return component.Refuse("profiling_config.alloc", "is %v", err)
	}
	if _, err := quantity(p.Lock); err != nil {
		return component.Refuse("profiling_config.lock", "is %v", err)
	}
	return nil
}

// quantity returns a number with a unit as async-profiler reads it: the first letter after the digits, of a time in
// nanoseconds or of a size in bytes.
func quantity(text string) (int64, error) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("no number with a unit, such as 10ms or 512k: %q", text)
	}
	factor := int64(1)
	if unit := text[len(digits):]; unit != "" {
		factors := map[byte]int64{'n': 1, 'u': 1e3, 'm': 1e6, 's': 1e9, 'b': 1, 'k': 1 << 10, 'g': 1 << 30}
		var known bool
		if factor, known = factors[strings.ToLower(unit)[0]]; !known {
			return 0, fmt.Errorf("a number with an unknown unit: %q", text)
		}
	}
	if n > (1<<62)/factor {
		return 0, fmt.Errorf("too large: %q", text)
	}
	return n * factor, nil
}

// lock returns the shortest time of waiting that is recorded.
func (p *Profiling) lock() time.Duration {
	n, err := quantity(p.Lock)
	if err != nil {
		return 0 // cannot happen: Validate has checked it
	}
	return time.Duration(n)
}

// Warnings describes attributes that have no effect, or another effect than in Alloy.
func (a *Arguments) Warnings() []*component.AttributeError {
	var all []*component.AttributeError
	warn := func(attribute, format string, args ...any) {
		all = append(all, &component.AttributeError{Attribute: attribute, Message: fmt.Sprintf(format, args...)})
	}
	if a.Dist != "" {
		warn("dist", "has no effect: no library is put into Java VMs")
	}
	switch a.Profiling.Event {
	case "", "itimer", "cpu", "ctimer":
	case "wall":
		warn("profiling_config.event", `is "wall", and the profile is of CPU time: pyroscope.ebpf with off_cpu has waiting`)
	default:
		warn("profiling_config.event", "is %q, and the profile is of CPU time", a.Profiling.Event)
	}
	return all
}

// cpuSettings returns the settings of the pyroscope.ebpf component that makes the CPU profiles.
func (a *Arguments) cpuSettings() ebpf.Settings {
	var s ebpf.Settings
	s.SetToDefault()
	if a.Profiling.CPU {
		s.Targets = a.Targets
	}
	s.CollectInterval = a.Profiling.Interval
	s.SampleRate = a.Profiling.SampleRate
	s.Comm = string(profiler.CommNone)
	s.ThreadNameLabel = a.Profiling.PerThread
	return s
}

// services returns targets with the service names that Alloy's pyroscope.java gives them: java/NAMESPACE/CONTAINER in
// Kubernetes.
func services(targets []map[string]string) []map[string]string {
	named := make([]map[string]string, len(targets))
	for i, t := range targets {
		named[i] = map[string]string{}
		maps.Copy(named[i], t)
		named[i][target.LabelServiceName] = target.ServiceName("java", t)
	}
	return named
}
