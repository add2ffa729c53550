package process

import (
	"debug/elf"
	"fmt"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/unwind"
)

// withTraits is a library that has only traits.
type withTraits struct {
	language.Library
	frames    language.FramesKind
	generates string
}

func (l withTraits) Traits() language.Traits {
	return language.Traits{Frames: l.frames, Generates: l.generates}
}

// TestMakers: code in no file has the name of the runtimes of the process that generate code, and of no other runtime,
// in whatever order their files are mapped.
func TestMakers(t *testing.T) {
	tracker := NewTracker(newMemoryStore(), procfs.Default, &filework.Pool{}, nil)
	defer tracker.Close()
	python, perl := withTraits{frames: language.NamedFrames}, withTraits{frames: language.PlaceholderFrames}
	numba := withTraits{frames: language.GeneratedFrames, generates: "numba"}
	mono := withTraits{frames: language.GeneratedFrames, generates: "Mono"}
	for _, c := range []struct {
		libraries []language.Library
		own       language.UnnamedError // of the interpreter of the process
		want      string
	}{
		{[]language.Library{python}, language.UnnamedError{}, ""},
		{[]language.Library{python, numba}, language.UnnamedError{}, "[code made by numba]"},
		{[]language.Library{python, numba, numba}, language.UnnamedError{}, "[code made by numba]"},
		{[]language.Library{numba}, language.UnnamedError{Frame: "F", Made: "[code made by numba]"}, "[code made by numba]"},
		{[]language.Library{mono, numba}, language.UnnamedError{Frame: "F", Made: "own"}, "[code made by Mono or numba]"},
		{[]language.Library{perl}, language.UnnamedError{Frame: "[Perl code]", Made: "[Perl code]"}, "[Perl code]"},
		{[]language.Library{perl, numba}, language.UnnamedError{Frame: "[Perl code]", Made: "[Perl code]"},
			"[code made by Perl or numba]"},
	} {
		for _, libraries := range [][]language.Library{c.libraries, backwards(c.libraries)} {
			p := &Process{}
			for _, library := range libraries {
				p.noteRuntime(&Executable{library: library}, &mapping{exe: &Executable{}}, &procfs.Mapping{})
			}
			i, err := tracker.languages.Add(p.interpreted.library, nil, c.own)
			if err != nil {
				t.Fatal(err)
			}
			by := engine.ProcessRuntime{
				Interpreter: i, Library: p.interpreted.library, Makers: p.interpreted.makers,
			}
			got := ""
			if id, ok := by.UnnamedCode(); ok {
				f, _ := i.Function(id)
				got = f.Name
			}
			if got != c.want {
				t.Errorf("%T: %q, want %q", libraries, got, c.want)
			}
		}
	}
}

// TestWrittenCode: memory of a file that is no ELF file is code in no file if the process can write to the code, or
// could write to other code of the file.
func TestWrittenCode(t *testing.T) {
	notELF := &Executable{ID: 7, Path: "/x.core", Err: fmt.Errorf("open: %w", &elf.FormatError{})}
	notELF.image.Store(newImage(notELF, nil))
	for perms, want := range map[procfs.Perms]unwind.ExeID{
		procfs.Read | procfs.Exec:                                7,
		procfs.Read | procfs.Exec | procfs.Write:                 0,
		procfs.Read | procfs.Exec | procfs.Shared:                0,
		procfs.Read | procfs.Exec | procfs.Shared | procfs.Write: 0,
	} {
		var p Process
		add := func(inode uint64, perms procfs.Perms) mapping {
			m := located{exe: notELF, Mapping: procfs.Mapping{
				Start: 0x5000, End: 0x6000, Offset: 0x1000, Perms: perms, Inode: inode,
			}}
			p.noteWritten(m)
			return p.mappingOf(m)
		}
		check := func(inode uint64, perms procfs.Perms, want unwind.ExeID) {
			m, got := add(inode, perms), unwind.ExeID(0)
			if m.exe != nil {
				got = m.exe.ID
			}
			if got != want || want != 0 && m.bias != 0x4000 {
				t.Errorf("%v of file %d: executable %d, bias %#x, want executable %d", perms, inode, got, m.bias, want)
			}
		}
		check(1, perms, want)
		check(1, procfs.Read|procfs.Exec, want)
		check(2, procfs.Read|procfs.Exec, 7)
	}
}

func backwards(libraries []language.Library) []language.Library {
	out := slices.Clone(libraries)
	slices.Reverse(out)
	return out
}
