package tools

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestGo386 records a 32-bit Go program, with symbols, and stripped of them and of DWARF: the time in one function is
// below 21 calls of another function.
func TestGo386(t *testing.T) {
	t.Parallel()
	need.Root(t)
	rig.Need32Bit(t)
	for name, flags := range map[string]string{"hwgo": "", "hwgostripped": "-s -w"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkGo386(t, compiledGo(t, name, "./testdata/deep386", "GOARCH=386", "-ldflags="+flags))
		})
	}
}

func checkGo386(t testing.TB, program string) {
	folder, _, _, code := record(t, "-F", "499", "--", program, "1s")
	require.Equal(t, 0, code)
	all := rig.OfCommand(rig.Stacks(readProfile(t, folder, "headwater.pb.gz")), filepath.Base(program))
	whole, unready := int64(0), int64(0)
	for _, s := range all {
		if s.IsUnready() {
			unready += s.Value
			continue
		}
		names := s.Names()
		at := slices.Index(names, "main.burn")
		if at < 0 {
			continue
		}
		chain := strings.Join(names[:at], " ")
		if !strings.Contains(chain, "runtime.goexit runtime.main main.main "+strings.Repeat("main.call ", 21)+"sort.Slice ") {
			t.Errorf("a stack of %s has %s", program, chain)
		}
		whole += s.Value
	}
	if whole <= unready || whole < (rig.Total(all)-unready)*9/10 {
		t.Errorf("%d of %d ms are below all calls:\n%s", whole/1e6, rig.Total(all)/1e6, rig.Show(all, 10))
	}
}
