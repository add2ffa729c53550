package v8

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestNameless: the version of a V8 without symbols is its own version string, and programs that only mention versions
// of V8 have none.
func TestNameless(t *testing.T) {
	need.Tools(t, "gcc")
	far := strings.Repeat("x", 3<<20) // so that it is in another chunk
	for name, test := range map[string]struct {
		text []string
		want string
	}{
		"deno":     {[]string{"interpreted-frames-native-stack", far, "15.0.245.2-rusty"}, "[V8 15.0 code]"},
		"electron": {[]string{"13.8.258.32-electron.0", far, "interpreted_frames_native_stack"}, "[V8 13.8 code]"},
		"bun":      {[]string{"12.4.254.14-node.12"}, ""},
		"other numbers": {
			[]string{"interpreted_frames_native_stack", "127.0.0.1", "1.2.3.4-alpha", "x1.2.3.4-rusty"}, ""},
		"without a version": {[]string{"interpreted_frames_native_stack"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			source := "void napi_create_function(void) {}\n"
			for i, text := range test.text {
				source += "const char text" + string(rune('a'+i)) + "[] = \"\\0\" \"" + text + "\";\n"
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "lib.c"), []byte(source), 0o644))
			path := filepath.Join(dir, "lib.so")
			out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", path, filepath.Join(dir, "lib.c")).CombinedOutput()
			require.NoError(t, err, "%s", out)
			file, err := elffile.Open(path)
			require.NoError(t, err)
			defer file.Close()
			library := New().Detect("", file)
			require.NotNil(t, library)
			runs, _ := library.Evaluation()
			require.Empty(t, runs, "its own frames are native code")
			testkit.Eventually(t, "the version is searched", func() bool {
				_, err = library.FindFrames(language.Process{})
				return !errors.Is(err, language.ErrNotReady)
			})
			var unnamed *language.UnnamedError
			if test.want == "" {
				require.ErrorIs(t, err, language.ErrUnknown)
				return
			}
			require.ErrorAs(t, err, &unnamed)
			require.Equal(t, test.want, unnamed.Made)
			require.Contains(t, unnamed.Hint, "--perf-basic-prof")
		})
	}
	file, err := elffile.Open("/proc/self/exe")
	require.NoError(t, err)
	defer file.Close()
	require.Nil(t, New().Detect("", file))
}
