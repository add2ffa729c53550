package java

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// ofOneRun matches what only one run of a program has in the names of its classes: an address or a count.
var ofOneRun = regexp.MustCompile(`0x[0-9a-f]{16}|\$\$Lambda\$\d|GeneratedMethodAccessor\d`)

// TestLambdas records equal runs of a program whose classes the VM generates at run time: names contain neither an
// address nor a count, and headwater diff finds no change of the program's own methods. The program waits while the VM
// compiles methods (-Xbatch): otherwise it depends on the load of the host how long a run is interpreted.
func TestLambdas(t *testing.T) {
	classes := compile(t, "testdata/Lambdas.java")
	rounds, pairs := "500", 1
	if testkit.IsNightly() {
		rounds, pairs = "2000", 20
	}
	dir := t.TempDir()
	for _, java := range testkit.Javas() {
		record := func(name string, arguments ...string) string {
			file := filepath.Join(dir, name)
			arguments = append([]string{"record", "-q", "-F", "499", "-o", file}, arguments...)
			arguments = append(arguments, "--", java, "-Xbatch", "-cp", classes, "Lambdas", rounds)
			out, err := exec.Command(rig.Binary(t), arguments...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			return file
		}
		report := func(file string) string {
			out, err := exec.Command(rig.Binary(t), "report", "--folded", file).CombinedOutput()
			require.NoError(t, err, "%s", out)
			return string(out)
		}
		for range pairs {
			one, other := record("one.pb.gz"), record("other.pb.gz")
			for _, file := range []string{one, other} {
				folded := report(file)
				require.Empty(t, ofOneRun.FindAllString(folded, 3))
				require.Contains(t, folded, ";Lambdas$$Lambda.getAsLong;Lambdas.lambda$supplier$0;Lambdas.burn")
			}
			keepProgram(t, one)
			keepProgram(t, other)
			out, err := exec.Command(rig.Binary(t), "diff", "--check", "--total", one, other).CombinedOutput()
			require.NoError(t, err, "of equal runs:\n%s", out)
		}
		full := report(record("full.pb.gz", "--demangle", "full"))
		require.Equal(t, strings.Contains(full, "$$Lambda"), ofOneRun.MatchString(full), "with --demangle full")
	}
}

// keepProgram removes the samples outside the program's classes from a file: how long the VM's start takes, for example
// in page faults, depends on the host.
func keepProgram(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	p, err := profile.Parse(f)
	require.NoError(t, err)
	p.FilterSamplesByName(regexp.MustCompile(`^Lambdas\b`), nil, nil, nil)
	require.NotEmpty(t, p.Sample)
	_, err = f.Seek(0, io.SeekStart)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(0))
	require.NoError(t, p.Write(f))
}
