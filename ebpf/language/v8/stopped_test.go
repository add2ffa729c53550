package v8

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/host/procfs"
	hw "github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// nodes returns the node programs of this host: the installed one, and the programs in the variable HEADWATER_NODES.
func nodes(t testing.TB) []string {
	t.Helper()
	need.Tools(t, "node")
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{path}, filepath.SplitList(os.Getenv("HEADWATER_NODES"))...)
}

// process is a running program.
type process struct {
	pid     int
	out     *bufio.Reader
	library *Library // nil before the search
	v       Version
	blobs   []span // code in a file
	made    []span // code that is not in a file
	memory  procfs.Memory

	inlined int      // the maximum number of functions that one frame stood for
	wrong   []string // errors in the frames of the last stack
}

type span struct{ low, high uint64 }

func (s span) has(addr uint64) bool { return addr >= s.low && addr < s.high }

// start runs a script until it prints a line "ready".
func start(t *testing.T, node, script, argument string, args ...string) (p *process, printed []string) {
	t.Helper()
	c := exec.Command(node, append(args, script, argument)...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	p = &process{pid: c.Process.Pid, out: bufio.NewReader(out), memory: procfs.Memory{PID: uint32(c.Process.Pid)}}
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v after %q", node, err, printed)
		}
		if line == "ready\n" {
			return p, printed
		}
		printed = append(printed, strings.TrimSuffix(line, "\n"))
	}
}

// find finds V8 in the mapped files of the process.
func (p *process) find(t *testing.T) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	p.blobs, p.made = nil, nil
	for line := range strings.Lines(string(maps)) {
		w := strings.Fields(line)
		low, high, _ := strings.Cut(w[0], "-")
		s := span{hex(t, low), hex(t, high)}
		switch executable := w[1][2] == 'x'; {
		case executable && (len(w) == 5 || w[5] == "[heap]"):
			p.made = append(p.made, s)
		case executable && strings.HasPrefix(w[len(w)-1], "/"):
			p.blobs = append(p.blobs, s)
		}
		if p.library != nil || len(w) < 6 || !strings.HasPrefix(w[5], "/") || w[1][2] != 'x' {
			continue
		}
		file, err := elffile.Open(w[5])
		if err != nil {
			t.Fatal(err)
		}
		if p.library = Detect(file); p.library != nil {
			bias, ok := file.Bias(s.low, s.high, hex(t, w[2]))
			if !ok {
				t.Fatalf("bias of %s", w[5])
			}
			if p.v, err = p.library.Version(p.memory, bias); err != nil {
				t.Fatal(err)
			}
		}
		file.Close()
	}
	if p.library == nil {
		t.Fatal("no V8 found")
	}
}

func hex(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// stop stops the process and calls look with the registers of its first thread.
func (p *process) stop(t *testing.T, look func(pc, fp uint64)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.PtraceAttach(p.pid); err != nil {
		t.Fatalf("ptrace: %v", err)
	}
	defer syscall.PtraceDetach(p.pid)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	look(registers(t, p.pid))
}

func (p *process) word(addr uint64) uint64 {
	var b [8]byte
	p.memory.ReadAt(b[:], int64(addr))
	return binary.LittleEndian.Uint64(b[:])
}

// frame is a frame of JavaScript.
type frame struct {
	Name, File string
	Line       int
}

// stack returns the JavaScript frames on the stack of a stopped process. While V8 itself runs, the frames may be wrong:
// p.wrong has their errors.
func (p *process) stack(t *testing.T, i *interpreter, pc, fp uint64) (frames []frame) {
	p.wrong = nil
	for n := range 200 {
		made := slices.ContainsFunc(p.made, func(s span) bool { return s.has(pc) })
		frames = append(frames, p.frame(t, i, made, n == 0, pc, fp)...)
		next := p.word(fp)
		if pc = p.word(fp+8) - 1; next <= fp || pc == 0 {
			break
		}
		fp = next
	}
	return frames
}

// spinning returns the JavaScript frames while function leaf itself runs. While V8 runs, for example to collect
// garbage, the frames are not found by frame pointer.
func (p *process) spinning(t *testing.T) (frames []frame) {
	t.Helper()
	testkit.Eventually(t, "leaf is at work", func() bool {
		p.find(t) // with recently compiled code
		p.stop(t, func(pc, fp uint64) { frames = p.stack(t, newInterpreter(&p.v, hw.Range{}, &lines{}), pc, fp) })
		return len(frames) > 1 && frames[0].Name == "leaf" && frames[1].Name != "leaf" // two while V8 sets up a frame
	})
	for _, wrong := range p.wrong {
		t.Error(wrong)
	}
	return frames
}

// ran returns the CPU time that the first thread of the process has used, in ns.
func (p *process) ran(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	var ns uint64
	if _, err := fmt.Sscan(string(text), &ns); err != nil {
		t.Fatal(err)
	}
	return ns
}

// frame returns the frames that a native frame stands for, as ebpf/sampler finds them.
func (p *process) frame(t *testing.T, i *interpreter, made, leaf bool, pc, fp uint64) (frames []frame) {
	t.Helper()
	l := &i.layout
	shared := p.word(p.word(fp-16)&pointerMask+uint64(l.FunctionShared)) & pointerMask
	data := p.word(shared + uint64(l.SharedData))
	f := i.Frame([]uint64{p.word(fp - 8), p.word(fp - 32), p.word(fp - 40), shared, data, 0})
	if f.Hidden || f.Made && !made && !leaf {
		return nil
	}
	if made {
		if c, err := i.MachineCode(p.memory, pc, f.Code); err != nil {
			p.wrong = append(p.wrong, fmt.Sprintf("code at 0x%x: %v", pc, err))
		} else if stamp := i.Stamp(p.memory, c.Low); stamp != c.Stamp || pc < c.Low || pc >= c.High {
			p.wrong = append(p.wrong,
				fmt.Sprintf("code at 0x%x: %#x to %#x, stamp %x and then %x", pc, c.Low, c.High, c.Stamp, stamp))
		} else {
			for _, l := range i.Lines(&c.Function, pc-c.Low, !leaf) {
				frames = append(frames, frame{l.Function, l.File, l.Line})
			}
			p.inlined = max(p.inlined, len(frames))
			return frames
		}
		f.IP = hw.NoIP
	}
	function, err := i.Function(p.memory, &hw.CodeObject{Address: f.Code})
	if err != nil {
		p.wrong = append(p.wrong, fmt.Sprintf("function at 0x%x: %v", f.Code, err))
	}
	return []frame{{function.Name, function.File, i.Lines(&function, f.IP, false)[0].Line}}
}

// traceLine is a line of Error.stack: at Object.name (file:line:column), or at file:line:column.
var traceLine = regexp.MustCompile(`^ +at (?:(?:async )?(?:new )?(.*?) (?:\[as .*\] )?\()?([^()]*):(\d+):\d+\)?$`)

// trace returns the frames of an Error.stack, the innermost first.
func trace(t *testing.T, printed []string) (frames []frame) {
	t.Helper()
	for _, line := range printed {
		m := traceLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		name := m[1][strings.LastIndexByte(m[1], '.')+1:]
		if name == "" || name == "<anonymous>" {
			name = anonymous
		}
		frames = append(frames, frame{name, m[2], n})
	}
	return frames
}

// TestStopped compares the stacks of stopped programs with node's own Error.stack.
func TestStopped(t *testing.T) {
	script, err := filepath.Abs("testdata/chain.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes(t) {
		for name, args := range map[string][]string{
			"default":     nil,
			"interpreted": {"--no-opt", "--no-sparkplug"},
			"baseline":    {"--always-sparkplug", "--no-opt"},
		} {
			t.Run(filepath.Base(filepath.Dir(node))+"/"+name, func(t *testing.T) {
				p, printed := start(t, node, script, "", args...)
				want := trace(t, printed)
				if len(want) < 8 {
					t.Fatalf("node printed %q", printed)
				}
				got := p.spinning(t)
				t.Logf("V8 %d.%d, known %v, describes %d fields", p.v.Major, p.v.Minor, p.v.Known, len(p.v.Described))
				line := got[0].Line
				if name == "default" && line == 9 { // optimised code may have the position of the code before it
					line = 8
				}
				if line != 0 && line != 8 {
					t.Fatalf("frames %+v, want leaf first", got)
				}
				for i := range min(len(got), len(want)) {
					if got[i].Line == 0 && name != "interpreted" { // compiled code has no line
						want[i].Line = 0
					}
				}
				if d := cmp.Diff(want[1:], got[1:]); d != "" {
					t.Errorf("stack (-node +ours):\n%s", d)
				}
			})
		}
	}
}

// TestInlined compares the stacks of programs with inlined functions with node's own Error.stack.
func TestInlined(t *testing.T) {
	script, err := filepath.Abs("testdata/inlined.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes(t) {
		for compiler, flags := range map[string][]string{
			"turbofan": nil,
			"maglev":   {"--maglev"},
			"baseline": {"--no-opt"},
		} {
			t.Run(filepath.Base(filepath.Dir(node))+"/"+compiler, func(t *testing.T) {
				if exec.Command(node, append(flags, "-e", "0")...).Run() != nil {
					t.Logf("%s has no %s", node, compiler)
					return
				}
				p, printed := start(t, node, script, compiler, append(flags, "--allow-natives-syntax")...)
				want := trace(t, printed)
				if len(want) < 7 {
					t.Fatalf("node printed %q", printed)
				}
				t.Log(printed[0])
				got := p.spinning(t)
				if len(got) < 7 {
					t.Fatalf("frames %+v", got)
				}
				want[0].Line, got[0].Line = 0, 0 // the leaf has continued
				for n := range want[:7] {
					if (compiler != "turbofan" || n > 4) && got[n].Line == 0 { // baseline code has no line
						want[n].Line = 0
					}
				}
				if functions := map[string]int{"turbofan": 4, "baseline": 1}[compiler]; p.inlined < functions {
					t.Errorf("one frame stood for %d functions at most, want %d", p.inlined, functions)
				}
				t.Logf("one frame stood for %d functions", p.inlined)
				if d := cmp.Diff(want[:7], got[:7]); d != "" {
					t.Errorf("stack (-node +ours):\n%s", d)
				}
			})
		}
	}
}

// TestLayouts compares layouts.txt with the descriptions in the binaries of its versions.
func TestLayouts(t *testing.T) {
	for _, node := range nodes(t) {
		p, _ := start(t, node, "testdata/idle.js", "")
		p.find(t)
		if !p.v.Known {
			t.Errorf("%s: V8 %d.%d is not in layouts.txt", node, p.v.Major, p.v.Minor)
			continue
		}
		t.Logf("%s: V8 %d.%d describes %d fields", node, p.v.Major, p.v.Minor, len(p.v.Described))
		for name, field := range fields(&p.v.Layout) {
			if value, ok := p.v.Described[name]; ok && value != *field {
				t.Errorf("%s: %s is %d, layouts.txt says %d", node, name, value, *field)
			}
		}
	}
}
