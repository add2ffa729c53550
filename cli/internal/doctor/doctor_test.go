package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionOf(t *testing.T) {
	for release, want := range map[string][2]int{
		"6.1.0-13-amd64": {6, 1}, "5.10": {5, 10}, "5.4.0+": {5, 4}, "7.2-rc1": {7, 2}, "": {}, "x.y": {},
	} {
		major, minor := versionOf(release)
		require.Equal(t, want, [2]int{major, minor}, release)
	}
	require.True(t, atLeast(5, 10, 5, 10))
	require.True(t, atLeast(6, 0, 5, 10))
	require.False(t, atLeast(5, 9, 5, 10))
	require.False(t, atLeast(4, 19, 5, 10))
}

func TestText(t *testing.T) {
	r := Report{
		Findings: []Finding{{"kernel", OK, "6.1.0", ""}, {"BTF", Bad, "not there", "mount /sys"}},
		Runtimes: []Runtime{{"python 3.16", Warn, "/usr/bin/python3", []uint32{1, 2, 3, 4, 5, 6, 7}, "not known"}},
	}
	var b strings.Builder
	require.NoError(t, r.WriteText(&b))
	require.Equal(t, `ok       kernel              6.1.0
missing  BTF                 not there
                          -> mount /sys

Language runtimes in running processes:
warning  python 3.16         /usr/bin/python3, process 1, 2, 3, 4, 5, and 2 more
                          -> not known
`, b.String())
	require.Equal(t, Bad, r.Worst())
	require.Equal(t, OK, (&Report{}).Worst())
}
