package river

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

// TestEvaluatedSince evaluates repeatedly: the time of the health changes only with its state.
func TestEvaluatedSince(t *testing.T) {
	h := newNodeHealth()
	long := time.Now().Add(-time.Hour)
	for _, step := range []struct {
		err  error
		want component.HealthType
	}{
		{nil, component.HealthTypeHealthy},
		{errors.New("first"), component.HealthTypeUnhealthy},
		{nil, component.HealthTypeHealthy},
	} {
		h.evaluation.UpdateTime = long
		h.evaluated(step.err)
		require.Equal(t, step.want, h.evaluation.Health)
		require.True(t, h.evaluation.UpdateTime.After(long), "a new state has a new time")

		h.evaluation.UpdateTime = long
		h.evaluated(step.err)
		require.Equal(t, step.want, h.evaluation.Health)
		require.Equal(t, long, h.evaluation.UpdateTime, "the same state keeps its time")
	}
	h.evaluated(errors.New("one"))
	h.evaluated(errors.New("two"))
	require.Contains(t, h.evaluation.Message, "two", "the message is that of the last evaluation")
}
