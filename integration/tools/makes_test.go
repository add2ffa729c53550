package tools

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestMadeCode: code that a program generates is between its callers and callees in stacks, in any kind of memory (make
// nightly tests all kinds). It has the names of a perf map, or without one the runtime's name for all of it.
func TestMadeCode(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		need.Missing(t, "the code is that of amd64")
	}
	program := filepath.Join(t.TempDir(), "hwmakes")
	rig.Compile(t, "gcc", "-O1", "-g", "-rdynamic", "-o", program, "testdata/makes.c")
	kinds := []string{"memfd"}
	if testkit.IsNightly() {
		kinds = append(kinds, "private", "shared", "sysv", "file")
	}
	for _, kind := range kinds {
		for name, args := range map[string][]string{"hwjitted": {kind, "named"}, "[code made by Mono]": {kind}} {
			folder, _, _, code := record(t, append([]string{"-F", "499", "-o", "out.pb.gz", "--", program}, args...)...)
			require.Equal(t, 0, code)
			all := rig.Stacks(readProfile(t, folder, "out.pb.gz"))
			made := int64(0)
			for _, s := range all {
				names := s.Names()
				if at := slices.Index(names, name); at > 0 && slices.Contains(names[:at], "main") {
					made += s.Value
				}
			}
			if total := rig.Total(all); total == 0 || made < total/2 { // the runtime or the map is known a little later
				t.Errorf("%v: %d of %d ms are in code called %s:\n%s", args, made/1e6, total/1e6, name, rig.Show(all, 5))
			}
		}
	}
}
