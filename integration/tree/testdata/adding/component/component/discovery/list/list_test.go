package list

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
)

// TestUpdate: each update exports the targets of the new arguments.
func TestUpdate(t *testing.T) {
	exports := make(chan component.Exports, 1)
	c, err := New(component.Options{OnStateChange: func(e component.Exports) { exports <- e }}, Arguments{
		Addresses: []string{"a:80", "b:80"}, Labels: map[string]string{"team": "x"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()

	require.Equal(t, discovery.Exports{Targets: []discovery.Target{
		{"__address__": "a:80", "team": "x"}, {"__address__": "b:80", "team": "x"},
	}}, <-exports)
	require.NoError(t, c.Update(Arguments{Addresses: []string{"c:80"}}))
	require.Equal(t, discovery.Exports{Targets: []discovery.Target{{"__address__": "c:80"}}}, <-exports)
	cancel()
	require.NoError(t, <-ended)
}
