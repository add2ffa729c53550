package process

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
	"github.com/headwater/headwater/integration/testkit/need"
)

// variableFrame has a function whose code does not show the size of its frame.
const variableFrame = `
#define TEXT(x) #x
#define NUMBER(x) TEXT(x)
unsigned long frame = FRAME;
unsigned long loop(unsigned long n);
__asm__(".text\n.type loop, @function\nloop:\n.cfi_startproc\n"
	"mov frame(%rip), %rax\nsub %rax, %rsp\n.cfi_adjust_cfa_offset " NUMBER(FRAME) "\n"
	"again: imul $7, %rdi, %rdi\ndec %rdi\njnz again\n"
	"add %rax, %rsp\n.cfi_adjust_cfa_offset -" NUMBER(FRAME) "\nret\n.cfi_endproc\n.size loop, . - loop\n");
int main(int argc, char **argv) { return loop(argc); }`

// framesInDebugFile builds a program without .eh_frame, whose .debug_frame is in a debug file. It returns the address
// of an instruction of loop, and the offset of the CFA from the stack pointer there, as readelf shows them.
func framesInDebugFile(t *testing.T, dir, buildID string, frame int) (program, debug string, at uint64, cfa int) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		need.Missing(t, "the stack pointer's name is that of x86-64")
	}
	program = builtProgram(t, dir, "program", variableFrame, "-O1", "-g", fmt.Sprint("-DFRAME=", frame),
		"-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-Wl,--build-id="+buildID)
	for _, fde := range ehtest.Interp(t, program, ".debug_frame") {
		for _, row := range fde.Rows {
			var off int
			if _, err := fmt.Sscanf(fde.Cell(row, "CFA"), "rsp+%d", &off); err == nil && off > max(cfa, frame-1) {
				at, cfa = row.Loc, off
			}
		}
	}
	require.Equal(t, frame+8, cfa, "readelf shows a function with a large frame")
	debug = program + ".debug"
	tool(t, "objcopy", "--only-keep-debug", program, debug)
	tool(t, "strip", program)
	tool(t, "objcopy", "--add-gnu-debuglink="+debug, program)
	apart := filepath.Join(t.TempDir(), "apart") // not where the link leads
	require.NoError(t, os.Rename(debug, apart))
	return program, apart, at, cfa
}

// ruleAt returns the rule at an ELF virtual address of the program that a process has mapped.
func (h *hosts) ruleAt(pid uint32, vaddr uint64) unwind.WideRule {
	h.t.Helper()
	view := h.At(pid, math.MaxUint64)
	m, ok := view.mappings.findMapping(textAt)
	require.True(h.t, ok)
	rule, outcome := view.Rule(vaddr + m.bias)
	require.Equal(h.t, unwind.Unset, outcome)
	return rule
}

// place copies a file to a path.
func place(t *testing.T, file string, path ...string) {
	t.Helper()
	to := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	copyFile(t, file, to)
}

// TestDebugFrameOfDebugFile: rows are in a debug file, in each place where debuggers look for it, compressed or not. A
// debug file of another build, or one that is missing, gives no rows.
func TestDebugFrameOfDebugFile(t *testing.T) {
	need.Tools(t, "gcc", "objcopy", "strip", "readelf")
	const withID, withoutID = "0x1122334455667788", "none"
	const id = ".build-id/11/22334455667788.debug"
	byID := func(_, debugDir string) []string { return []string{debugDir, id} }
	byLink := func(dir, _ string) []string { return []string{dir, "program.debug"} }
	for _, c := range []struct {
		name, id string
		place    func(dir, debugDir string) []string
		pack     string // of --compress-debug-sections
		other    bool   // the debug file is of another build
		found    bool
	}{
		{"build ID", withID, byID, "none", false, true},
		{"zlib", withID, byID, "zlib", false, true},
		{"zlib-gnu", withID, byID, "zlib-gnu", false, true},
		{"next to it", withoutID, byLink, "none", false, true},
		{".debug", withoutID, func(dir, _ string) []string { return []string{dir, ".debug/program.debug"} }, "none",
			false, true},
		{"another checksum", withoutID, byLink, "none", true, false},
		{"another build ID", withID, byID, "none", true, false},
		{"nowhere", withID, func(dir, _ string) []string { return []string{dir, "elsewhere"} }, "none", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, debugDir := t.TempDir(), t.TempDir()
			program, debug, at, cfa := framesInDebugFile(t, dir, c.id, 4000)
			if c.other {
				another := map[string]string{withID: "0x99", withoutID: withoutID}[c.id]
				_, debug, _, _ = framesInDebugFile(t, t.TempDir(), another, 4000)
			}
			if c.pack != "none" {
				tool(t, "objcopy", "--compress-debug-sections="+c.pack, debug)
			}
			place(t, debug, c.place(dir, debugDir)...)
			h := newHosts(t)
			h.exes.debug = debugfile.New(nil, []string{debugDir})
			rule := h.ruleAt(h.run(program), at)
			if !c.found {
				require.Equal(t, unwind.CFANone, rule.CFA, "%v", rule)
				return
			}
			require.Equal(t, unwind.CFASP, rule.CFA, "%v", rule)
			require.EqualValues(t, cfa, rule.CFAOff, "%v", rule)
		})
	}
}

// TestLateDebugFile: while a debug file is looked for, the page of code that may need it is missing. It has rows as
// soon as the debug file was found, also if the first search found none.
func TestLateDebugFile(t *testing.T) {
	need.Tools(t, "gcc", "objcopy", "strip", "readelf")
	program, debug, at, cfa := framesInDebugFile(t, t.TempDir(), "sha1", 4000)
	file, err := elffile.Open(program)
	require.NoError(t, err)
	defer file.Close()
	found, finish := debugfile.Found{}, make(chan struct{})
	late := &debugFrame{
		what: "looking",
		find: func() (debugfile.Found, error) { <-finish; return found, nil },
		wait: patient(0),
	}
	defer late.close()
	rows := &fileRows{elf: file, index: runIndexing, debug: late}
	const shift = unwind.MinPageShift
	_, err = rows.Page(at>>shift, shift)
	require.True(t, filework.Later(err), "%v", err)

	close(finish)
	late.wait = patient(2 * time.Minute)
	p, err := rows.Page(at>>shift, shift)
	require.NoError(t, err)
	require.Equal(t, unwind.CFANone, p.Rule(at).CFA, "%v", p.Rule(at))

	found.File, err = elffile.Open(debug)
	require.NoError(t, err)
	late.ended = late.ended.Add(-searchPause)
	p, err = rows.Page(at>>shift, shift)
	require.NoError(t, err)
	require.EqualValues(t, cfa, p.Rule(at).CFAOff, "%v", p.Rule(at))

	// A debug file that is written to belongs to another build.
	require.NoError(t, os.Truncate(debug, 64))
	p, err = rows.Page(at>>shift, shift)
	require.NoError(t, err)
	require.Equal(t, unwind.CFANone, p.Rule(at).CFA, "%v", p.Rule(at))
}

// TestDebugFrameOfAContainerIsItsOwn has three containers with the same program. Two of them have its debug file, one
// has a debug file with the rows of another program. Each has its own rows, and equal rows are shared.
func TestDebugFrameOfAContainerIsItsOwn(t *testing.T) {
	need.Tools(t, "gcc", "objcopy", "strip", "readelf")
	const buildID, name = "0x1122334455667788", ".build-id/11/22334455667788.debug"
	dir, debugDir := t.TempDir(), t.TempDir()
	program, debug, at, cfa := framesInDebugFile(t, dir, buildID, 4000)
	_, other, _, _ := framesInDebugFile(t, t.TempDir(), buildID, 8000)
	h := newHosts(t)
	h.exes.debug = debugfile.New(nil, []string{debugDir})
	debugFiles := []string{debug, other, debug, ""}
	pids := make([]uint32, len(debugFiles))
	for i, file := range debugFiles {
		if file != "" {
			root := h.fs.RootPath(h.next+1, "")
			place(t, file, root, debugDir, name)
		}
		copyOf := filepath.Join(dir, fmt.Sprint("copy", i))
		copyFile(t, program, copyOf)
		pids[i] = h.run(copyOf)
	}
	h.settled()
	for i, file := range debugFiles {
		rule := h.ruleAt(pids[i], at)
		if want := map[bool]int{true: cfa}[file == debug]; want != 0 && int(rule.CFAOff) != want {
			t.Errorf("container %d: %v, want sp+%d", i, rule, want)
		} else if want == 0 && rule.CFA == unwind.CFASP && int(rule.CFAOff) == cfa {
			t.Errorf("container %d has the rows of another: %v", i, rule)
		}
	}
	if h.directory(pids[0]) != h.directory(pids[2]) {
		t.Error("equal programs with equal debug files do not share rows")
	}
}
