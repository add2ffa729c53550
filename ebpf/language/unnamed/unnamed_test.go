package unnamed

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/need"
)

// exporting builds a library that exports functions.
func exporting(t *testing.T, functions ...string) *elffile.File {
	t.Helper()
	dir, source := t.TempDir(), ""
	for _, f := range functions {
		source += "int " + f + "(void) { return 0; }\n"
	}
	in, out := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.so")
	if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("gcc", "-shared", "-fPIC", "-s", "-o", out, in).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	file, err := elffile.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// TestMakers: a stripped file that exports what only the runtime has makes code with that runtime's label, and is the
// maker of all code if no native function stands for the runtime's functions.
func TestMakers(t *testing.T) {
	need.Tools(t, "gcc")
	for _, c := range []struct {
		functions []string
		made      string
		makes     string
	}{
		{[]string{"mono_jit_init"}, "[code made by Mono]", "Mono"},
		{[]string{"pypy_execute_source"}, "[code made by PyPy]", "PyPy"},
		{[]string{"racket_apply"}, "[code made by Racket]", "Racket"},
		{[]string{"call_into_lisp"}, "[code made by SBCL]", "SBCL"},
		{[]string{"PyInit__helperlib"}, "[code made by numba]", "numba"},
		{[]string{"zend_execute", "execute_ex"}, "[code made by PHP]", ""},
		{[]string{"LLVMPY_AddSymbol"}, "", ""},
	} {
		library := Language{}.Detect("", exporting(t, c.functions...))
		if c.made == "" {
			if library != nil {
				t.Errorf("%v: %T", c.functions, library)
			}
			continue
		}
		if library == nil {
			t.Errorf("%v: no library", c.functions)
			continue
		}
		var unnamed *language.UnnamedError
		if _, err := library.FindFrames(language.Process{}); !errors.As(err, &unnamed) || unnamed.Made != c.made {
			t.Errorf("%v: %v", c.functions, err)
		}
		if makes := library.Traits().Generates; makes != c.makes {
			t.Errorf("%v: it makes code of %q, want %q", c.functions, makes, c.makes)
		}
	}
}
