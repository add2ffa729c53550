package cpython

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// Language detects CPython. It implements language.Language.
type Language struct{}

// Symbols that identify CPython: its programs and libraries export them, also when they are stripped.
const (
	symbolRuntime    = "_PyRuntime"
	symbolEvaluation = "_PyEval_EvalFrameDefault"
	symbolVersion    = "Py_Version" // PY_VERSION_HEX, 3.11 and later
)

// Name is the name of the language.
const Name = "python"

// Name implements language.Language.
func (Language) Name() string { return Name }

// Detect implements language.Language. It checks the exported symbols of the file.
func (Language) Detect(_ string, file *elffile.File) language.Library {
	if file.Class() != elf.ELFCLASS64 || file.ByteOrder() != binary.LittleEndian {
		return nil
	}
	state, ok, err := file.DynamicSymbol(symbolRuntime)
	if err != nil || !ok {
		return nil
	}
	loop, ok, err := file.DynamicSymbol(symbolEvaluation)
	if err != nil || !ok || loop.Type != elf.STT_FUNC {
		return nil
	}
	l := &library{machine: file.Machine(), musl: file.IsMusl(), state: state.Value}
	l.evaluation = loopRanges(file, loop)
	l.minor, l.patch = versionOf(file)
	l.layout, l.err = layoutOf(l.minor, func(n uint64) (uint64, error) {
		var b [8]byte
		err := file.ReadVaddr(b[:], state.Value+8*n)
		return binary.LittleEndian.Uint64(b[:]), err
	})
	if l.err != nil {
		return l
	}
	if l.err = l.findState(file); l.layout.minor >= 11 {
		l.entering = enteringRanges(file, loop, l.layout.offsetOf(l.layout.listFields()[0]))
	}
	return l
}

// since has functions that were added in a version, to detect the versions that have no Py_Version.
var since = [...]struct {
	symbol string
	minor  int
}{
	{"PyIter_Send", 10},
	{"PyFrame_GetCode", 9},
	{"PyVectorcall_Call", 8},
}

// versionOf returns the version 3.minor.patch of the CPython in a file. patch is -1 if it is unknown.
func versionOf(file *elffile.File) (minor, patch int) {
	if s, ok, err := file.DynamicSymbol(symbolVersion); err == nil && ok {
		var b [8]byte
		if err := file.ReadVaddr(b[:], s.Value); err == nil {
			return int(b[2]), int(b[1]) // PY_VERSION_HEX: major, minor, patch, release level
		}
	}
	for _, s := range since {
		if _, ok, err := file.DynamicSymbol(s.symbol); err == nil && ok {
			return s.minor, -1
		}
	}
	return 7, -1 // the first version with _PyRuntime
}

// library is a CPython file: a program, or libpython. It implements language.Library.
type library struct {
	machine      elf.Machine
	musl         bool
	minor, patch int
	state        uint64 // vaddr of _PyRuntime
	layout       *layout
	err          error // the reason why functions cannot be named
	evaluation   []language.Range
	entering     []language.Range
	thread       []language.Step // to the thread state; nil if slot is used
	slot         threadLocal     // location of the pointer to the thread state if thread is nil
}

// Attach implements language.Library: CPython makes no code that has rows.
func (l *library) Attach(language.Process) (language.Code, error) { return nil, language.ErrUnknown }

// Traits implements language.Library.
func (l *library) Traits() language.Traits {
	return language.Traits{Frames: language.NamedFrames, Switches: switchesOf}
}

// Evaluation implements language.Library.
func (l *library) Evaluation() (runs, entering []language.Range) { return l.evaluation, l.entering }

// version returns "3.11.2", or "3.9" if the file does not have the patch version.
func (l *library) version() string {
	if l.patch < 0 {
		return fmt.Sprintf("3.%d", l.minor)
	}
	return fmt.Sprintf("3.%d.%d", l.minor, l.patch)
}

// findState finds the steps to a thread's state.
func (l *library) findState(file *elffile.File) (err error) {
	if !l.layout.hasField("runtime.key") {
		l.slot, err = findThreadLocal(file)
		return err
	}
	steps := language.GlibcKey
	if l.musl {
		steps = language.MuslKey
	}
	if l.thread = steps(l.machine, l.state+uint64(l.layout.offsetOf("runtime.key"))); l.thread == nil {
		return fmt.Errorf("the thread state cannot be found on %v yet", l.machine)
	}
	if l.layout.hasField("runtime.running") {
		l.thread = slices.Insert(l.thread, 0, language.Step{
			Op: language.Running, Offset: int64(l.state) + l.layout.offsetOf("runtime.running"),
			Scale: uint32(l.layout.offsetOf("thread.id")), Limit: uint32(len(l.thread)),
		})
	}
	return nil
}
