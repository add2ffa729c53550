package river

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

func TestRunsComponents(t *testing.T) {
	h := newHost(t)
	stop := h.runs(`
		test.value "a" { in = test.value.b.out }
		test.value "b" { in = "x" }`)
	h.eventually("both run", func() bool {
		return h.has("run test.value.a")() && h.has("run test.value.b")()
	})
	require.Equal(t, []string{"build test.value.b", "build test.value.a"}, h.happened()[:2])
	require.True(t, h.Ready())
	state, _ := h.health("test.value.a")
	require.Equal(t, "healthy", state)

	stop()
	state, message := h.health("test.value.a")
	require.Equal(t, "exited", state)
	require.Equal(t, "component shut down normally", message)
}

// TestStopsUsersFirst: a component that is used must still run for the last flush of its user, even
// if its user is slow and the component itself stops quickly.
func TestStopsUsersFirst(t *testing.T) {
	h := newHost(t)
	stop := h.runs(`
		test.sink "top" {
			forward_to = [test.value.middle.receiver]
			behaviour  = "stop slowly"
		}
		test.value "middle" {
			in        = test.value.bottom.out
			behaviour = "stop slowly"
		}
		test.value "bottom" { in = "x" }`)
	h.eventually("all run", func() bool { return len(h.happened()) == 6 })
	stop()
	require.Equal(t, []string{"end test.sink.top", "end test.value.middle", "end test.value.bottom"}, h.happened()[6:])
}

func TestStopsInTimeWhateverComponentsDo(t *testing.T) {
	h := newHost(t)
	h.options.StopTimeout = 50 * time.Millisecond
	require.NoError(t, h.load(`
		test.value "stuck" { behaviour = "never stop" }
		test.value "used" { }
		test.value "user" { in = test.value.used.out + test.value.stuck.out }`))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	h.eventually("all run", func() bool { return len(h.happened()) == 6 })
	cancel()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("Run does not return")
	}
	h.eventually("the used one has ended", h.has("end test.value.used"))
	require.Contains(t, h.log.String(), "ends without them")
	require.Contains(t, h.log.String(), "components=test.value.stuck")
	close(h.get("test.value.stuck").release)
	h.eventually("the stuck one has ended", h.has("end test.value.stuck"))
}

// TestComponentEnds: the end of a component does not end other components, in any way that it ends.
// Its health shows the end, and it starts again at the next load.
func TestComponentEnds(t *testing.T) {
	for behaviour, want := range map[string]string{
		"fail":  "component shut down with error: bad luck",
		"exit":  "component shut down normally",
		"panic": "component shut down with error: panic: run boom",
	} {
		t.Run(behaviour, func(t *testing.T) {
			h := newHost(t)
			config := fmt.Sprintf(`
				test.value "bad" { behaviour = %q }
				test.value "good" { in = test.value.bad.out }`, behaviour)
			h.runs(config)
			h.eventually("it has exited", func() bool {
				state, message := h.health("test.value.bad")
				return state == "exited" && message == want
			})
			h.eventually("the other runs", h.has("run test.value.good"))
			state, _ := h.health("test.value.good")
			require.Equal(t, "healthy", state)
			require.Equal(t, []string{"test.value.bad"}, h.Unhealthy())

			require.NoError(t, h.load(config))
			h.eventually("it has run again", func() bool { return count(h.happened(), "run test.value.bad") == 2 })
			require.Equal(t, 1, count(h.happened(), "build test.value.bad"))
			require.Equal(t, 1, count(h.happened(), "run test.value.good"))
		})
	}
}

func TestPanicsAreLogged(t *testing.T) {
	h := newHost(t)
	h.runs(`test.value "bad" { behaviour = "panic" }`)
	h.eventually("the panic is in the log", func() bool {
		return strings.Contains(h.log.String(), `panic="run boom"`) && strings.Contains(h.log.String(), "lab_test.go")
	})
}

func TestExportsCascade(t *testing.T) {
	h := newHost(t)
	h.runs(`
		test.value "a" { in = "1" }
		test.value "b" { in = test.value.a.out + "b" }
		test.value "c" { in = test.value.b.out + "c" }
		test.value "d" { in = test.value.a.out + test.value.c.out + "d" }
		test.value "other" { in = "x" }`)
	require.Equal(t, "11bcd", h.out("test.value.d"))

	a := h.get("test.value.a")
	for i := range 200 {
		a.options.OnStateChange(specimenExports{Out: fmt.Sprint(i)})
	}
	h.eventually("the newest value has arrived", func() bool { return h.out("test.value.d") == "199199bcd" })
	require.Equal(t, 0, count(h.happened(), "update test.value.other"))
	require.LessOrEqual(t, count(h.happened(), "update test.value.b"), 200)
}

// TestDirectDependantIsNotMissed: c uses a both directly and through b, and the exports of b do not
// change with a.
func TestDirectDependantIsNotMissed(t *testing.T) {
	h := newHost(t)
	h.runs(`
		test.value "a" { in = "1" }
		test.value "b" { list = [test.value.a.out, ""] }
		test.value "c" { in = test.value.a.out + test.value.b.out }`)
	h.get("test.value.a").options.OnStateChange(specimenExports{Out: "2"})
	h.eventually("c has the new value", func() bool { return h.out("test.value.c") == "2" })
}

func TestEqualExportsChangeNothing(t *testing.T) {
	h := newHost(t)
	h.runs(`
		test.value "a" { in = "1" }
		test.value "b" { in = test.value.a.out }`)
	a := h.get("test.value.a")
	a.options.OnStateChange(specimenExports{Out: "2", Receiver: a})
	h.eventually("b is updated", func() bool { return h.out("test.value.b") == "2" })
	updates := count(h.happened(), "update test.value.b")
	for range 10 {
		a.options.OnStateChange(specimenExports{Out: "2", Receiver: a})
	}
	// Make another change, to know that the queue is empty.
	a.options.OnStateChange(specimenExports{Out: "3", Receiver: a})
	h.eventually("b is updated", func() bool { return h.out("test.value.b") == "3" })
	require.Equal(t, updates+1, count(h.happened(), "update test.value.b"))
}

func TestExportsOfTheWrongType(t *testing.T) {
	h := newHost(t)
	h.runs(`
		test.value "a" { behaviour = "export the wrong type" }
		test.value "b" { in = test.value.a.out + "x" }
		test.sink "c" { }`)
	require.Equal(t, "x", h.out("test.value.b"))
	h.get("test.sink.c").options.OnStateChange(specimenExports{})
	require.Equal(t, 2, strings.Count(h.log.String(), "exported a value of the wrong type"))
}

// TestUpdateFails: a change of exports leads to new arguments, which are refused.
func TestUpdateFails(t *testing.T) {
	for value, want := range map[string]string{
		"fail to update":  "component evaluation failed: updating component: cannot",
		"panic in update": "component evaluation failed: panic: update boom",
	} {
		t.Run(value, func(t *testing.T) {
			h := newHost(t)
			h.runs(`
				test.value "a" { in = "" }
				test.value "b" {
					in        = "keeps this"
					behaviour = test.value.a.out
				}`)
			a := h.get("test.value.a")
			a.options.OnStateChange(specimenExports{Out: value})
			h.eventually("b is unhealthy", func() bool {
				state, message := h.health("test.value.b")
				return state == "unhealthy" && message == want
			})
			require.Equal(t, "keeps this", h.get("test.value.b").current().In)
			a.options.OnStateChange(specimenExports{Out: "fine"})
			h.eventually("b is healthy again", func() bool {
				state, _ := h.health("test.value.b")
				return state == "healthy"
			})
		})
	}
}

// TestBuiltLater: a component that failed to build at a reload is built and run once a change of
// exports makes it possible.
func TestBuiltLater(t *testing.T) {
	h := newHost(t)
	h.runs(`test.value "a" { in = "fail to build" }`)
	require.Error(t, h.load(`
		test.value "a" { in = "fail to build" }
		test.value "b" { behaviour = test.value.a.out }`))
	state, message := h.health("test.value.b")
	require.Equal(t, "unhealthy", state)
	require.Equal(t, "component evaluation failed: building component: no luck", message)

	h.get("test.value.a").options.OnStateChange(specimenExports{Out: "work"})
	h.eventually("b runs", h.has("run test.value.b"))
	state, _ = h.health("test.value.b")
	require.Equal(t, "healthy", state)
}

func TestOwnHealth(t *testing.T) {
	h := newHost(t)
	h.runs(`test.value "a" { }`)
	h.eventually("it runs", h.has("run test.value.a"))
	h.get("test.value.a").setHealth(component.HealthTypeUnhealthy, "out of breath")
	state, message := h.health("test.value.a")
	require.Equal(t, "unhealthy", state)
	require.Equal(t, "out of breath", message)
}

// TestExportsAfterTheEnd: exports may change during and after the stop of Run, without blocking or
// a panic.
func TestExportsAfterTheEnd(t *testing.T) {
	h := newHost(t)
	stop := h.runs(`
		test.value "a" { in = "1" }
		test.value "b" { in = test.value.a.out }`)
	stop()
	for range 5000 {
		h.get("test.value.a").options.OnStateChange(specimenExports{Out: "late"})
		h.get("test.value.a").options.OnStateChange(specimenExports{Out: "later"})
	}
}
