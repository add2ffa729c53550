package verify

import (
	"os"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/verify/reference"
)

// judge decides whether frames of a walk equal frames of the reference.
type judge struct {
	executables executables
	same        map[claim]bool
}

// executables returns the executables of frames.
type executables interface {
	Executable(id unwind.ExeID) *process.Executable    // nil if no longer known
	JITCode(exe unwind.ExeID) (*process.JITCode, bool) // the JIT code that exe stands for, if it is not a file
}

// claim states that an executable of the profiler is a file of the reference.
type claim struct {
	exe  unwind.ExeID
	file *reference.File
}

func newJudge(e executables) *judge { return &judge{e, map[claim]bool{}} }

// sameFrame compares the locations of frames. It ignores flags, which only concern how a frame was found and is shown.
func (j *judge) sameFrame(ours kernel.Frame, theirs reference.Frame) bool {
	switch {
	case ours.Exe == 0: // in no file
		return theirs.File == nil && ours.Vaddr == theirs.PC
	case ours.Code != 0:
		code, ok := j.executables.JITCode(ours.Exe)
		return ok && theirs.File == nil && code.Address(ours.Vaddr) == theirs.PC
	}
	e := j.executables.Executable(ours.Exe)
	if e == nil {
		return false
	}
	return theirs.File != nil && ours.Vaddr == theirs.Vaddr && j.sameFile(e, theirs.File)
}

// sameFile reports whether an executable and a file are the same file, or have the same program headers and the same
// code. The build ID does not count.
func (j *judge) sameFile(e *process.Executable, file *reference.File) bool {
	key := claim{e.ID, file}
	same, known := j.same[key]
	if !known {
		same = compareFiles(e, file)
		j.same[key] = same
	}
	return same
}

func compareFiles(e *process.Executable, file *reference.File) bool {
	const vdso = "[vdso]" // a host has only one
	if e.Path == vdso || file.Path == vdso {
		return e.Path == file.Path
	}
	ours, err := e.Open()
	if err != nil {
		return false
	}
	defer ours.Close()
	info, err1 := ours.Stat()
	other, err2 := file.Stat()
	if err1 == nil && err2 == nil && os.SameFile(info, other) {
		return true
	}
	a, err1 := reference.Digest(ours)
	b, err2 := file.Digest()
	return err1 == nil && err2 == nil && a == b
}
