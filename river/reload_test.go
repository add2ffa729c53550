package river

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReload(t *testing.T) {
	h := newHost(t)
	h.runs(`
		test.value "kept" { in = "1" }
		test.value "changed" { in = "1" }
		test.value "removed" { in = "1" }`)
	h.eventually("all run", func() bool { return len(h.happened()) == 6 })

	require.NoError(t, h.load(`
		test.value "changed" { in = "2" }
		test.value "added" { in = test.value.changed.out }
		test.value "kept" {
			in = "1" // a comment changes nothing
		}`))
	h.eventually("the new one runs", h.has("run test.value.added"))
	h.eventually("the removed one has ended", h.has("end test.value.removed"))
	require.Equal(t, "2", h.out("test.value.added"))
	events := h.happened()
	require.Equal(t, 1, count(events, "update test.value.changed"))
	require.Equal(t, 0, count(events, "update test.value.kept"))
	for _, id := range []string{"kept", "changed", "removed", "added"} {
		require.Equal(t, 1, count(events, "build test.value."+id), id)
		require.Equal(t, 1, count(events, "run test.value."+id), id)
	}
	_, found := h.Component("test.value.removed")
	require.False(t, found)
}

// TestReloadRefused: a configuration without a valid graph has no effect.
func TestReloadRefused(t *testing.T) {
	good := `
		test.value "a" { in = "1" }
		test.value "b" { in = test.value.a.out }`
	for name, broken := range map[string]string{
		"syntax":             `test.value "a" { in = `,
		"attribute at root":  `x = 1`,
		"unknown component":  `test.value "a" { in = "2" } ` + "\n" + `nope "x" { }`,
		"unknown reference":  `test.value "a" { in = test.value.zzz.out }`,
		"duplicate":          `test.value "a" { in = "2" }` + "\n" + `test.value "a" { in = "3" }`,
		"cycle":              `test.value "a" { in = test.value.b.out }` + "\n" + `test.value "b" { in = test.value.a.out }`,
		"self reference":     `test.value "a" { in = test.value.a.out }`,
		"refused block":      `test.value "a" { in = "2" }` + "\n" + `foreach "x" { }`,
		"reference to an ID": `test.value "a" { in = "2" }` + "\n" + `test.value "c" { in = test.value }`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.runs(good)
			h.eventually("both run", func() bool { return len(h.happened()) == 4 })
			err := h.load(broken)
			var failed *LoadError
			require.ErrorAs(t, err, &failed)
			require.False(t, failed.Applied)
			require.Equal(t, "the previous configuration keeps running", failed.Consequence())

			require.Len(t, h.Components(), 2)
			h.get("test.value.a").options.OnStateChange(specimenExports{Out: "still alive"})
			h.eventually("the old graph works", func() bool { return h.out("test.value.b") == "still alive" })
			require.Empty(t, h.Unhealthy())
			require.Equal(t, 0, count(h.happened(), "update test.value.a"))
			require.True(t, h.Ready())
		})
	}
}

// TestReloadWithEvaluationErrors: the graph is applied, except for the failed blocks.
func TestReloadWithEvaluationErrors(t *testing.T) {
	h := newHost(t)
	h.runs(`
		test.value "a" { in = "1" }
		test.value "b" { in = "1" }
		test.value "removed" { }`)
	h.eventually("all run", func() bool { return len(h.happened()) == 6 })

	err := h.load(`
		test.value "a" { number = "abc" }
		test.value "b" { in = "2" }
		test.value "c" { in = test.value.a.out }
		test.value "d" { behaviour = "fail to build" }`)
	var failed *LoadError
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.Applied)
	require.EqualError(t, err, `c.river:2:29: "abc" should be number, got string (and 1 more diagnostics)`)

	h.eventually("the removed one has ended", h.has("end test.value.removed"))
	h.eventually("the new one runs", h.has("run test.value.c"))
	require.Equal(t, "2", h.out("test.value.b"))
	require.Equal(t, "1", h.out("test.value.c"), "a keeps its last exports")
	require.Equal(t, []string{"test.value.a", "test.value.d"}, h.Unhealthy())
	_, message := h.health("test.value.a")
	require.Equal(t,
		`component evaluation failed: decoding River: c.river:2:29: "abc" should be number, got string`, message)

	require.NoError(t, h.load(`test.value "a" { in = "3" }`))
	require.Empty(t, h.Unhealthy())
	require.Equal(t, "3", h.out("test.value.a"))
}

func TestFirstLoadIsAllOrNothing(t *testing.T) {
	h := newHost(t)
	require.Error(t, h.load(`
		test.value "good" { }
		test.value "bad" { number = "abc" }`))
	require.False(t, h.Ready())
	h.runs(`test.value "good" { in = "now" }`)
	h.eventually("it runs", h.has("run test.value.good"))
	require.Equal(t, 1, count(h.happened(), "run test.value.good"))
	require.Equal(t, "now", h.out("test.value.good"))
}

// TestReplacedComponentWaits: a component that is removed and added again must not run while its
// predecessor stops.
func TestReplacedComponentWaits(t *testing.T) {
	h := newHost(t)
	config := `test.value "a" { behaviour = "stop slowly" }`
	h.runs(config)
	for i := range 5 {
		h.eventually("it runs", func() bool { return count(h.happened(), "run test.value.a") == i+1 })
		require.NoError(t, h.load(``))
		require.NoError(t, h.load(config))
	}
	h.eventually("it runs", func() bool { return count(h.happened(), "run test.value.a") == 6 })
	running := 0
	for _, event := range h.happened() {
		switch event {
		case "run test.value.a":
			running++
			require.Equal(t, 1, running)
		case "end test.value.a":
			running--
		}
	}
}

func TestLoggingBlockIsAppliedOnReload(t *testing.T) {
	h := newHost(t)
	require.NoError(t, h.load(`logging { level = "debug" }`))
	require.Contains(t, h.log.String(), "level=debug")
	require.NoError(t, h.load("logging {\n level = \"error\"\n format = \"json\"\n}"))
	before := h.log.String()
	require.NoError(t, h.load("logging {\n level = \"error\"\n format = \"json\"\n}"))
	require.Equal(t, before, h.log.String())
	require.Error(t, h.load(`test.value "a" { number = "x" }`), "without a logging block the defaults hold again")
	require.Contains(t, h.log.String(), "level=error")
	require.NotContains(t, strings.TrimPrefix(h.log.String(), before), "{")
}

func TestLoadMetrics(t *testing.T) {
	h := newHost(t)
	path := filepath.Join(t.TempDir(), "c.river")
	load := func(text string) error {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return h.LoadPath(path)
	}
	expect := func(good, bad int, hash string) {
		t.Helper()
		require.Equal(t, []string{fmt.Sprintf("{sha256=%s} 1", hash)}, h.metric("agent_config_hash"))
		require.Equal(t, []string{fmt.Sprintf("{} %d", good)}, h.metric("agent_config_last_load_successful"))
		require.Equal(t, []string{fmt.Sprintf("{} %d", bad)}, h.metric("agent_config_load_failures_total"))
	}
	// Checksums by sha256sum(1) of "" and of the text below.
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	require.NoError(t, load(""))
	expect(1, 0, empty)
	require.Error(t, load("x = 1\n"))
	expect(0, 1, empty)
	require.Error(t, load("test.value \"a\" { number = \"x\" }\n")) // applied, except for its only block
	expect(0, 2, "ddabfe0be13f3a2e9c6d3dabad5559036716b205cec6b27e6361ee4300a9b76e")
	require.Error(t, h.LoadPath(path+".gone"))
	expect(0, 3, "ddabfe0be13f3a2e9c6d3dabad5559036716b205cec6b27e6361ee4300a9b76e")
}

// TestManyReloads races reloads of random configurations with changing exports.
func TestManyReloads(t *testing.T) {
	h := newHost(t)
	config := func(random *rand.Rand) string {
		var text strings.Builder
		for i := range 6 {
			if i > 0 && random.Intn(4) == 0 {
				continue
			}
			in := `"x"`
			if i > 0 {
				in = "test.value.n0.out"
			}
			fmt.Fprintf(&text, "test.value \"n%d\" {\n\tin = %s\n\tnumber = %d\n}\n", i, in, random.Intn(3))
		}
		return text.String()
	}
	random := rand.New(rand.NewSource(1))
	h.runs(config(random))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			h.get("test.value.n0").options.OnStateChange(specimenExports{Out: fmt.Sprint(i)})
			h.Components()
		}
	}()
	for range 100 {
		require.NoError(t, h.load(config(random)))
	}
	cancel()
	<-done
	h.get("test.value.n0").options.OnStateChange(specimenExports{Out: "last"})
	for _, info := range h.Components() {
		h.eventually(info.LocalID+" has the last value", func() bool { return h.out(info.LocalID) == "last" })
	}
}
