package flamegraph

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/unwind"
)

// TestOutcomeTexts: the page explains every outcome, and says which are good: a
// complete stack, or none that could be missing.
func TestOutcomeTexts(t *testing.T) {
	for o := unwind.Complete; o <= unwind.Switched; o++ {
		text, good := outcomeText(o.String())
		require.NotEmpty(t, text, o)
		expected := o.Complete() || !o.HasUserPart() && o != unwind.NoUserRegisters
		require.Equal(t, expected, good, o)
	}
}
