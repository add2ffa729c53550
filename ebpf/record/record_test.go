package record

import (
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// TestTitle checks that the first mapping, which go tool pprof shows as the file of a profile, belongs to the
// executable of the recorded process. For several processes it names the processes, even if code outside any file, such
// as a process's name, has a mapping.
func TestTitle(t *testing.T) {
	tests := []struct {
		name string
		of   *selection
		want string
	}{
		{"a process", &selection{Selection: Selection{PIDs: []uint32{7}}, exe: "/bin/sh"}, "/bin/sh"},
		{"a process whose executable has no sample", &selection{Selection: Selection{PIDs: []uint32{7}}, exe: "/bin/cat",
			name: "cat"}, "process 7 (cat)"},
		{"the host", &selection{}, "this host"},
	}
	for _, test := range tests {
		p := &profile.Profile{Mapping: []*profile.Mapping{{ID: 1}, {ID: 2, File: "/lib/libc.so.6"}, {ID: 3, File: "/bin/sh"}}}
		r := &Recorder{selected: test.of}
		r.putFirst(p)
		require.Equal(t, test.want, p.Mapping[0].File, test.name)
		require.NoError(t, p.CheckValid())
	}
}
