package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTicks(t *testing.T) {
	before, err := parseTicks("cpu  100 1 20 300 5 6 7 61 3 2\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	require.NoError(t, err)
	require.Equal(t, ticks{idle: 305, steal: 61, total: 500}, before)
	after, err := parseTicks("cpu  130 1 30 350 5 6 7 71 3 2\n") // 40 more at work, 50 idle, 10 stolen
	require.NoError(t, err)
	require.Equal(t, 50.0, before.usedUntil(after))
	require.Equal(t, 10.0, before.stealUntil(after))
	require.Zero(t, after.usedUntil(after))
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7 x"} {
		_, err := parseTicks(bad)
		require.ErrorContains(t, err, "/proc/stat", bad)
	}
}

func TestParseModel(t *testing.T) {
	for _, test := range [][2]string{
		{"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\n" +
			"processor\t: 1\nmodel name\t: another\n", "AMD EPYC, family 26, model 2"},
		{"processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "implementer 0x41, part 0xd0c"},
		{"", "unknown"},
	} {
		text, want := test[0], test[1]
		require.Equal(t, want, parseModel(text))
	}
}
