package component

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type plainArgs struct {
	N int `river:"n,attr,optional"`
}

type noComponent struct{}

func (noComponent) Run(context.Context) error { return nil }
func (noComponent) Update(Arguments) error    { return nil }

func buildNothing(Options, Arguments) (Component, error) { return noComponent{}, nil }

func TestLeastHealthy(t *testing.T) {
	older, newer := time.Unix(100, 0), time.Unix(200, 0)
	health := func(kind HealthType, at time.Time) Health { return Health{Health: kind, UpdateTime: at} }

	tests := map[string]struct {
		in   []Health
		want Health
	}{
		"one": {[]Health{health(HealthTypeUnknown, older)}, health(HealthTypeUnknown, older)},
		"unknown is worse than healthy": {[]Health{health(HealthTypeHealthy, newer), health(HealthTypeUnknown, older)},
			health(HealthTypeUnknown, older)},
		"unhealthy is worse than unknown": {
			[]Health{health(HealthTypeUnhealthy, older), health(HealthTypeUnknown, newer)}, health(HealthTypeUnhealthy, older)},
		"exited is worst": {[]Health{health(HealthTypeUnhealthy, newer), health(HealthTypeExited, older)},
			health(HealthTypeExited, older)},
		"of equals the newest": {[]Health{health(HealthTypeHealthy, older), health(HealthTypeHealthy, newer)},
			health(HealthTypeHealthy, newer)},
		"of equals the newest (2)": {[]Health{health(HealthTypeHealthy, newer), health(HealthTypeHealthy, older)},
			health(HealthTypeHealthy, newer)},
		"three, worst in the middle": {
			[]Health{health(HealthTypeHealthy, newer), health(HealthTypeExited, older), health(HealthTypeUnhealthy, newer)},
			health(HealthTypeExited, older)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, LeastHealthy(test.in[0], test.in[1:]...))
		})
	}
}

func TestHealthTypeText(t *testing.T) {
	for i, want := range []string{"unknown", "healthy", "unhealthy", "exited"} {
		text, err := json.Marshal(HealthTypes()[i])
		require.NoError(t, err)
		require.Equal(t, `"`+want+`"`, string(text))

		var back HealthType
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, HealthTypes()[i], back)
	}
	var kind HealthType
	require.EqualError(t, kind.UnmarshalText([]byte("fine")), `unknown health type "fine"`)
}

func TestNewRegistry(t *testing.T) {
	reg := func(name string) Registration {
		return Registration{Name: name, Args: plainArgs{}, Build: buildNothing}
	}
	registry, err := NewRegistry(reg("pyroscope.write"), reg("pyroscope.ebpf"), reg("pyroscope.ebpf_gpu"))
	require.NoError(t, err, "a name may begin with another's letters, not with its words")
	require.Equal(t, []string{"pyroscope.ebpf", "pyroscope.ebpf_gpu", "pyroscope.write"}, registry.Names())

	found, ok := registry.Get("pyroscope.ebpf")
	require.True(t, ok)
	require.Equal(t, &plainArgs{}, found.NewArguments())
	_, ok = registry.Get("pyroscope")
	require.False(t, ok)
}

func TestNewRegistryRefuses(t *testing.T) {
	good := Registration{Name: "a.b", Args: plainArgs{}, Build: buildNothing}
	with := func(change func(r *Registration)) []Registration {
		r := good
		change(&r)
		return []Registration{r}
	}
	named := func(name string) func(*Registration) { return func(r *Registration) { r.Name = name } }
	tests := map[string][]Registration{
		`component name "a.b" is registered twice`: {good, good},
		`component names "a.b.c" and "a.b" collide: one starts with the other`: append([]Registration{good},
			with(named("a.b.c"))...),
		`component names "a" and "a.b" collide: one starts with the other`: append([]Registration{good}, with(named("a"))...),
		`component name "a..b" is not made of identifiers`:                 with(named("a..b")),
		`component name "" is not made of identifiers`:                     with(named("")),
		`component "a.b": arguments are a *component.plainArgs, not a struct`: with(func(r *Registration) {
			r.Args = &plainArgs{}
		}),
		`component "a.b": arguments are a <nil>, not a struct`: with(func(r *Registration) { r.Args = nil }),
		`component "a.b": exports are a *component.plainArgs, not a struct`: with(func(r *Registration) {
			r.Exports = &plainArgs{}
		}),
		`component "a.b" has no Build function`: with(func(r *Registration) { r.Build = nil }),
	}
	for want, regs := range tests {
		_, err := NewRegistry(regs...)
		require.EqualError(t, err, want)
	}
}

func TestNewRegistration(t *testing.T) {
	var got plainArgs
	var failure error
	r := NewRegistration("a.b", nil, func(_ Options, args plainArgs) (*noComponent, error) {
		got = args
		return &noComponent{}, failure
	})
	require.NoError(t, r.check())
	c, err := r.Build(Options{}, plainArgs{N: 7})
	require.NoError(t, err)
	require.Equal(t, &noComponent{}, c)
	require.Equal(t, plainArgs{N: 7}, got)

	failure = errors.New("no")
	c, err = r.Build(Options{}, plainArgs{})
	require.ErrorIs(t, err, failure)
	require.Nil(t, c)
}

func TestCondition(t *testing.T) {
	var c struct {
		noComponent
		Condition
	}
	var reporter HealthComponent = &c
	require.Equal(t, HealthTypeUnknown, reporter.CurrentHealth().Health)
	before := time.Now()
	c.SetHealth(HealthTypeUnhealthy, "why")
	require.Equal(t, HealthTypeUnhealthy, reporter.CurrentHealth().Health)
	require.Equal(t, "why", reporter.CurrentHealth().Message)
	since := reporter.CurrentHealth().UpdateTime
	require.False(t, since.Before(before))

	c.SetHealth(HealthTypeUnhealthy, "something else")
	require.Equal(t, "something else", reporter.CurrentHealth().Message)
	require.Equal(t, since, reporter.CurrentHealth().UpdateTime, "the same condition keeps its time")
	c.SetHealth(HealthTypeHealthy, "")
	require.True(t, reporter.CurrentHealth().UpdateTime.After(since), "a new condition has a new time")
}
