package kernel

import (
	"bufio"
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// interpretedBy starts a program, which prints a line when it is deep in its functions, and samples it as a program of
// the interpreter of a Spec. It returns the names of the first code objects of a chain, leaf first: of a sample that
// has the wanted ones, or else of the last sample. Callers of these functions have no name, or a name elsewhere.
func interpretedBy(
	t *testing.T, spec func(*exec.Cmd) []*language.Spec, want []string, command ...string,
) (got []string) {
	t.Helper()
	p := load(t)
	cmd := exec.Command(command[0], command[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%s has printed %q: %v", command[0], line, err)
	}
	if err := p.SetStacks(true, false, false); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(500); err != nil {
		t.Fatal(err)
	}
	named := map[uint64]string{}
	for _, s := range spec(cmd) {
		id := interpret(t, p, uint32(cmd.Process.Pid), s)
		const enough = 200 // samples, of which none has the frames if the Spec is wrong
		samples := 0
		testkit.Eventually(t, "the program is sampled", func() bool {
			_, err := p.ReadSamples(time.Now().Add(50*time.Millisecond), func(s *Sample) {
				if s.Chain.Interpreter != id || slices.Equal(got, want) {
					return
				}
				if samples++; s.Chain.End == language.ChainWhole {
					got = namesOf(&s.Chain, named)
					got = got[:min(len(got), len(want))]
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			return slices.Equal(got, want) || samples >= enough
		})
		if slices.Equal(got, want) {
			break
		}
	}
	return got
}

// interpret gives a process an interpreter.
func interpret(t *testing.T, p *Profiler, pid uint32, s *language.Spec) (id uint32) {
	t.Helper()
	number, id, err := p.Tables().AddInterpreter(s)
	if err != nil {
		t.Fatal(err)
	}
	process := unwind.Process{Generation: 1, Interpreter: number}
	maps, err := procfs.Default.ExecMappings(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if m.Start < 1<<63 {
			process.Mappings = append(process.Mappings, unwind.Mapping{Start: m.Start, End: m.End, Exe: 1})
		}
	}
	if err := p.Tables().SetProcess(pid, process); err != nil {
		t.Fatal(err)
	}
	return id
}

// namesOf returns the texts of the code objects of a chain; known has the texts of earlier samples.
func namesOf(c *Chain, known map[uint64]string) (names []string) {
	for _, code := range c.Codes {
		text, _, _ := bytes.Cut(code.Text[0], []byte{0})
		known[code.Address] = string(text)
	}
	for _, f := range c.Frames {
		names = append(names, known[f.Words[0]])
	}
	return names
}

func needLanguage(t *testing.T, tools ...string) {
	t.Helper()
	if _, err := os.Stat("../../bpf"); err != nil {
		t.Skip(err) // the machines of integration/kernels have this test, and no languages
	}
	need.Root(t)
	need.Tools(t, tools...)
}

// globalOf returns the address of a variable in a process, whose program or library has it.
func globalOf(t *testing.T, pid int, file, symbol string) uint64 {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == symbol })
	if at < 0 {
		t.Fatalf("%s has no %s", file, symbol)
	}
	if elf.ST_TYPE(symbols[at].Info) == elf.STT_TLS {
		return symbols[at].Value
	}
	maps, err := procfs.Default.Mappings(uint32(pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if m.Path == file && m.Offset == 0 {
			return m.Start + symbols[at].Value
		}
	}
	t.Fatalf("process %d has not mapped %s", pid, file)
	return 0
}

// TestChainOfPHP finds the functions that a real php runs: executor_globals.current_execute_data
// is the first of a list of frames, which point to functions, which point to their names.
func TestChainOfPHP(t *testing.T) {
	needLanguage(t, "php", "objdump")
	if runtime.GOARCH != "amd64" {
		t.Skip("the test reads x86-64 instructions")
	}
	program, err := filepath.EvalSymlinks(lookPath(t, "php"))
	if err != nil {
		t.Fatal(err)
	}
	spec := func(cmd *exec.Cmd) []*language.Spec {
		globals := globalOf(t, cmd.Process.Pid, program, "executor_globals")
		name := language.Word{Block: 1, Offset: 0}
		return []*language.Spec{{Chain: &language.Chain{
			Start: []language.Step{
				{Op: language.Absolute, Offset: int64(globals)}, {Op: language.Load, Offset: currentExecuteData(t, program)},
			},
			Frame: language.Layout{
				Blocks: []language.Block{{Bytes: 56}, {At: language.Word{Offset: 24}, Offset: 8, Bytes: 8}},
				Words:  []language.Word{{Offset: 24}, {Offset: 48}},
				Code:   0,
				Cookie: []language.Word{name},
				Texts:  []language.Text{{At: name, Offset: 24, Bytes: 32}}, // zend_string.val
			},
			Next: language.Next{Word: 1},
		}}}
	}
	const script = `function leaf_php() { echo "deep\n"; while (true) { $x = 1; } }
		function middle_php() { leaf_php(); }
		function outer_php() { middle_php(); }
		outer_php();`
	want := []string{"leaf_php", "middle_php", "outer_php"}
	if got := interpretedBy(t, spec, want, program, "-d", "opcache.jit=0", "-r", script); !slices.Equal(got, want) {
		t.Errorf("functions %q, want %q", got, want)
	}
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// currentExecuteData returns the offset of current_execute_data in executor_globals: the result of a function.
func currentExecuteData(t *testing.T, program string) int64 {
	t.Helper()
	args := []string{"-d", "--no-show-raw-insn", "--disassemble=zend_get_executed_scope", program}
	out, err := exec.Command("objdump", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`mov\s+(0x[0-9a-f]+)\(%r..\),%r..`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("zend_get_executed_scope of %s does not load current_execute_data:\n%s", program, out)
	}
	offset, err := strconv.ParseInt(string(m[1]), 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return offset
}

// TestChainOfRuby finds the methods that a real ruby 3.1 runs: its frames are in an array, to whose first element the
// thread-local ruby_current_ec leads.
func TestChainOfRuby(t *testing.T) {
	needLanguage(t, "ruby")
	version, err := exec.Command("ruby", "-e", "print RUBY_VERSION").Output()
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOARCH != "amd64" || !strings.HasPrefix(string(version), "3.1.") {
		t.Skipf("the test knows ruby 3.1 on x86-64, this is %s on %s", version, runtime.GOARCH)
	}
	spec := func(cmd *exec.Cmd) (specs []*language.Spec) {
		library := mappedFile(t, cmd.Process.Pid, "libruby-3.1.so")
		variable := globalOf(t, cmd.Process.Pid, library, "ruby_current_ec")
		for module := int64(1); module < 6; module++ { // which one libruby is
			specs = append(specs, rubySpec(module, int64(variable)))
		}
		return specs
	}
	const script = `def leaf_ruby; puts "deep"; $stdout.flush; x = 0; while true; x += 1; end; end
		def middle_ruby; leaf_ruby; end
		def outer_ruby; middle_ruby; end
		outer_ruby`
	want := []string{"leaf_ruby", "middle_ruby", "outer_ruby"}
	if got := interpretedBy(t, spec, want, "ruby", "--disable-gems", "-e", script); !slices.Equal(got, want) {
		t.Errorf("methods %q, want %q", got, want)
	}
}

// mappedFile returns the path of a file that a process has mapped.
func mappedFile(t *testing.T, pid int, name string) string {
	t.Helper()
	maps, err := procfs.Default.ExecMappings(uint32(pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if strings.Contains(m.Path, name) {
			return m.Path
		}
	}
	t.Fatalf("process %d has not mapped %s", pid, name)
	return ""
}

// rubySpec describes how ruby 3.1 keeps frames (vm_core.h): control frames of {pc, sp, iseq, self, ep, block, bp,
// jit_return}, callers after their callees; *ep has the kind of frame. The outermost is a dummy.
func rubySpec(module, variable int64) *language.Spec {
	const (
		dummy, kind = 0x79990001, 0x7fff0001
		frameBytes  = 64
	)
	label := language.Word{Block: 2, Offset: 16}
	return &language.Spec{Chain: &language.Chain{
		Start: []language.Step{
			{Op: language.ThreadPointer, Offset: 8}, {Op: language.Load}, // the dtv
			{Op: language.Load, Offset: 16 * module}, {Op: language.Load, Offset: variable},
			{Op: language.Load, Offset: 16}, // ec->cfp
		},
		Frame: language.Layout{
			Blocks: []language.Block{
				{Bytes: frameBytes}, {At: language.Word{Offset: 16}, Bytes: 24}, // iseq
				{At: language.Word{Block: 1, Offset: 16}, Offset: 64, Bytes: 32}, // its body's location
				{At: language.Word{Offset: 32}, Bytes: 8},
			},
			Words:  []language.Word{{Offset: 16}, {Block: 3}},
			Code:   0,
			Cookie: []language.Word{label},
			Texts:  []language.Text{{At: label, Offset: 16, Bytes: 24}}, // of a short string
		},
		Next: language.Next{Word: -1, Offset: frameBytes},
		Stop: &language.Test{Word: 1, Mask: kind, Value: dummy},
	}}
}
