package relabel

import (
	"context"
	"testing"

	"github.com/grafana/river"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
)

func decode(t *testing.T, text string) Arguments {
	t.Helper()
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte(text), &args))
	return args
}

func TestRelabel(t *testing.T) {
	var exported Exports
	c, err := New(component.Options{OnStateChange: func(e component.Exports) { exported = e.(Exports) }}, decode(t, `
		targets = [{"a" = "1", "__meta_x" = "y"}, {"a" = "2"}, {"b" = "3"}]
		rule {
			source_labels = ["a"]
			target_label  = "c"
		}
		rule {
			source_labels = ["c"]
			regex         = "2"
			action        = "drop"
		}
		rule {
			regex  = "b"
			action = "labeldrop"
		}`))
	require.NoError(t, err)
	require.Equal(t, []discovery.Target{{"a": "1", "__meta_x": "y", "c": "1"}}, exported.Output,
		"in Build; internal labels stay, and targets without labels go")
	require.Len(t, exported.Rules, 3)
	require.Equal(t, []Dropped{{Labels: map[string]string{"a": "2"}, Rule: 2, Text: `drop [c] regex "2"`}}, c.Dropped())
	require.Equal(t, `rule 2 (drop [c] regex "2") dropped {a="2"}`, c.Dropped()[0].String())
	info := c.DebugInfo().(DebugInfo)
	require.Equal(t, 1, info.Kept)
	require.Equal(t, 1, info.Dropped)
	require.Equal(t, 2, info.Targets[0].Rule)

	require.NoError(t, c.Update(decode(t, `targets = []`)))
	require.Empty(t, exported.Output)
	require.NotNil(t, exported.Output)
	require.Error(t, c.Update(1))

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, c.Run(ctx))
}
