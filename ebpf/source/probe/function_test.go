package probe

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// chosenSource is a library with two versions of the function versioned. Its function chosen has three implementations,
// and a resolver selects one when a program starts. Versions that are linked by default have the suffix new.
const chosenSource = `
__attribute__((noinline)) int versioned_old(int n) { return n + 1; }
__attribute__((noinline)) int versioned_new(int n) { return n + 2; }
__asm__(".symver versioned_old,versioned@V1\n.symver versioned_new,versioned@@V2");
__attribute__((noinline)) int gone_old(int n) { return n + 9; }
__asm__(".symver gone_old,gone@V1");
typedef int function(int);
static int chosen_1(int n) { return n + 3; }
static int chosen_2(int n) { return n + 4; }
static int chosen_3(int n) { return n + 5; }
volatile int kind;
__attribute__((used)) static function *choose(void)
{
	if (kind == 1)
		return chosen_1;
	return kind == 2 ? chosen_2 : chosen_3;
}
int chosen(int n) __attribute__((ifunc("choose")));
`

const chosenVersions = `V1 { global: versioned; gone; local: *; }; V2 { global: versioned; chosen; kind; } V1;`

// TestChosenFunctions: of several versions of a function the default one is probed, and the old one if no other is
// left; of a function that is chosen when a program starts, all implementations are. nm says where they are.
func TestChosenFunctions(t *testing.T) {
	need.Tools(t, "gcc", "nm", "strip")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	library, stripped := filepath.Join(dir, "chosen.so"), filepath.Join(dir, "stripped.so")
	run := func(tool string, args ...string) []byte {
		out, err := exec.Command(tool, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return out
	}
	// With one segment, addresses are offsets in the file.
	run("gcc", "-O1", "-shared", "-fPIC", "-Wl,-z,noseparate-code",
		"-Wl,--version-script="+write("versions", chosenVersions), "-o", library, write("chosen.c", chosenSource))
	run("strip", "-o", stripped, library)
	addresses := map[string]uint64{}
	for lines := bufio.NewScanner(bytes.NewReader(run("nm", library))); lines.Scan(); {
		var address uint64
		var kind, name string
		if n, _ := fmt.Sscanf(lines.Text(), "%x %s %s", &address, &kind, &name); n == 3 {
			addresses[name] = address
		}
	}
	for function, want := range map[string][]string{
		"versioned": {"versioned_new"}, "gone": {"gone_old"}, "chosen": {"chosen_1", "chosen_2", "chosen_3"},
	} {
		for _, file := range []string{library, stripped} {
			p, err := Parse("uprobe:" + file + ":" + function)
			require.NoError(t, err)
			events, err := p.Events()
			require.NoError(t, err)
			var got, offsets []uint64
			for _, e := range events {
				got = append(got, e.Offset)
			}
			for _, name := range want {
				require.NotZero(t, addresses[name], name)
				offsets = append(offsets, addresses[name])
			}
			slices.Sort(got)
			slices.Sort(offsets)
			require.Equal(t, offsets, got, "%s of %s", function, file)
		}
	}
}
