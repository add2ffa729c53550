package cpython

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// pythons returns the interpreters to test with: Debian's, and the interpreters in the environment variable
// HEADWATER_PYTHONS.
func pythons(t *testing.T) []string {
	need.Tools(t, "python3")
	return append([]string{"/usr/bin/python3"}, filepath.SplitList(os.Getenv("HEADWATER_PYTHONS"))...)
}

// TestStack compares the Python frames of a process, and their functions, files and lines, with the process's own
// output.
func TestStack(t *testing.T) {
	need.Root(t)
	for _, python := range pythons(t) {
		t.Run(python, func(t *testing.T) {
			program, err := filepath.Abs("testdata/stack.py")
			if err != nil {
				t.Fatal(err)
			}
			p := startPython(t, python, program)
			want := p.said(t)
			p.waitUntilReading(t)
			x, bias := p.interpreter(t)
			runtime.LockOSThread() // a tracer is a thread
			defer runtime.UnlockOSThread()
			threadPointer := p.threadPointer(t)
			frames := p.chain(t, x.Spec().Chain, bias, threadPointer)
			var got []string
			runs := 0
			for _, words := range frames {
				f := x.Frame(words)
				if f.Last {
					runs++
				}
				if f.Hidden {
					continue
				}
				function, err := x.Function(p.memory, &language.CodeObject{Address: f.Code})
				if err != nil || !function.Whole {
					t.Fatalf("frame %d: %+v, %v", len(got), function, err)
				}
				got = append(got, fmt.Sprintf("%s\t%s\t%d\t%d", function.Name, function.File, function.StartLine,
					x.Lines(&function, f.IP, false)[0].Line))
				p.compareCarried(t, x, words, &function)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			// sorted, exec, qsort and two generators are native code in between.
			if runs < 6 || runs > len(frames) {
				t.Errorf("%d runs in %d frames", runs, len(frames))
			}
		})
	}
}

// python is a running Python program.
type python struct {
	pid    int
	out    *bufio.Reader
	memory procfs.Memory
}

func startPython(t *testing.T, path string, args ...string) *python {
	t.Helper()
	command := exec.Command(path, args...)
	command.Stderr = os.Stderr
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONIOENCODING=utf-8")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		in.Close()
		command.Wait()
	})
	pid := command.Process.Pid
	return &python{pid: pid, out: bufio.NewReader(out), memory: procfs.Memory{PID: uint32(pid)}}
}

// said returns the lines that the program writes, up to an empty line.
func (p *python) said(t *testing.T) (lines []string) {
	t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			break
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		t.Fatal("the program said nothing")
	}
	return lines
}

// waitUntilReading waits until the program waits for its input.
func (p *python) waitUntilReading(t *testing.T) {
	t.Helper()
	const readInput = "0 0x0 " // the system call read, and its first argument
	testkit.Eventually(t, "the program waits for input", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", p.pid))
		return err == nil && strings.HasPrefix(string(b), readInput)
	})
}

// interpreter returns the Interpreter of the process.
func (p *python) interpreter(t *testing.T) (x language.FrameReader, bias uint64) {
	t.Helper()
	l, bias := p.library(t)
	x, err := l.FindFrames(language.Process{PID: uint32(p.pid), Bias: bias, Memory: p.memory})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Spec().Check(); err != nil {
		t.Fatal(err)
	}
	return x, bias
}

// library finds CPython in the mapped files of the process.
func (p *python) library(t *testing.T) (l *library, bias uint64) {
	t.Helper()
	mappings, err := procfs.FS{}.ExecMappings(uint32(p.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mappings {
		if !m.HasFile() {
			continue
		}
		file, err := elffile.Open(procfs.FS{}.MapFilePath(uint32(p.pid), m.Start, m.End))
		if err != nil {
			continue
		}
		defer file.Close()
		l, ok := Language{}.Detect("", file).(*library)
		if !ok {
			continue
		}
		bias, ok := file.Bias(m.Start, m.End, m.Offset)
		if !ok {
			t.Fatal("no bias")
		}
		return l, bias
	}
	t.Fatal("no CPython is mapped")
	return nil, 0
}

// threadPointer returns the thread pointer of the main thread, and leaves the thread traced and stopped.
func (p *python) threadPointer(t *testing.T) uint64 {
	t.Helper()
	if err := unix.PtraceSeize(p.pid); err != nil {
		t.Fatal(err)
	}
	if err := unix.PtraceInterrupt(p.pid); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(p.pid, nil, unix.WALL, nil); err != nil {
		t.Fatal(err)
	}
	return threadPointerOf(t, p.pid)
}

// chain follows a chain as the BPF program does, in Go and one word at a time.
func (p *python) chain(t *testing.T, c *language.Chain, bias, threadPointer uint64) (frames [][]uint64) {
	t.Helper()
	at, left := uint64(0), uint32(0)
	for _, s := range append(append([]language.Step{}, c.Start...), c.Then...) {
		if left > 0 {
			left--
			continue
		}
		switch s.Op {
		case language.Running:
			at = p.word(t, bias+uint64(s.Offset))
			if at != 0 && p.word(t, at+uint64(s.Scale)) == threadPointer {
				left = s.Limit
			}
		case language.ThreadPointer:
			at = threadPointer + uint64(s.Offset)
		case language.Load:
			at = p.word(t, at+uint64(s.Offset))
		case language.Index:
			at += uint64(s.Scale) * uint64(uint32(p.word(t, bias+uint64(s.Offset))))
		default:
			t.Fatalf("operation %d", s.Op)
		}
	}
	for at != 0 && len(frames) < 1000 {
		var words []uint64
		for _, w := range c.Frame.Words {
			words = append(words, p.word(t, at+uint64(c.Frame.Blocks[0].Offset)+uint64(w.Offset)))
		}
		frames = append(frames, words)
		at = words[c.Next.Word]
	}
	return frames
}

func (p *python) word(t *testing.T, addr uint64) uint64 {
	t.Helper()
	return binary.LittleEndian.Uint64(p.bytes(t, addr, 8))
}

func (p *python) bytes(t *testing.T, addr uint64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if got, err := p.memory.ReadAt(b, int64(addr)); err != nil && got == 0 {
		t.Fatalf("read at %#x: %v", addr, err)
	} else {
		b = b[:got]
	}
	return b
}

// compareCarried compares the carried data of a code object with its data in memory.
func (p *python) compareCarried(t *testing.T, x language.FrameReader, words []uint64, want *language.Function) {
	t.Helper()
	frame := x.Spec().Chain.Frame
	code := words[frame.Code]&frame.CodeMask + uint64(frame.Blocks[1].Offset)
	c := &language.CodeObject{Address: 1}
	for _, w := range frame.Cookie {
		c.Words = append(c.Words, p.word(t, code+uint64(w.Offset)))
	}
	for _, text := range frame.Texts {
		at := p.word(t, code+uint64(text.At.Offset))
		c.Text = append(c.Text, p.bytes(t, at+uint64(text.Offset), text.Bytes))
	}
	got, err := x.Function(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	if got.StartLine != want.StartLine || got.Name == "" || !strings.HasPrefix(want.Name, got.Name) ||
		got.File == "" || !strings.HasPrefix(want.File, got.File) {
		t.Errorf("carried: %+v, in memory: %+v", got, want)
	}
}
