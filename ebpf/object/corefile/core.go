// Package corefile reads ELF core files: the memory, the threads and the mapped files of a process when it ended, or
// when a debugger saved them. Sources of the format: core(5), elf(5), and Linux, fs/binfmt_elf.c.
//
// Memory that is not in a core is read from the files that the process had mapped, if they are unchanged. Cores are
// untrusted: all work is bounded, and a truncated core is read as far as possible.
package corefile

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Core is an open core file. Its methods except Close may be called concurrently.
type Core struct {
	Machine elf.Machine // EM_X86_64 or EM_AARCH64
	PID     uint32
	Name    string // of the process, at most 15 bytes
	Command string // its arguments, at most 79 bytes
	Threads []Thread
	Signal  *Signal // that ended the process; nil if none did
	// Mappings are the executable mappings.
	Mappings []procfs.Mapping
	// Notes are sentences about missing or unreliable data.
	Notes []string

	memory   *memory
	auxiliar map[uint64]uint64 // the auxiliary vector, by type
	vector   []byte            // as in memory
	closer   io.Closer
}

// Thread is a thread of the process.
type Thread struct {
	TID           uint32
	Regs          unwind.Regs
	ThreadPointer uint64
	Pending       bool // the signal was for this thread
}

// Signal is the signal that ended the process.
type Signal struct {
	Number  int
	Code    int32  // of siginfo_t, see sigaction(2); 0 if it is not known
	Address uint64 // of the access, or of the instruction
	Located bool   // there is an Address
}

// Options configure where files are read.
type Options struct {
	Executable string // the program, instead of the file that the core names; "" means that file
}

// Open opens a core file. The error says why it cannot be read at all. Close the Core after use.
func Open(path string, o Options) (*Core, error) {
	file, err := procfs.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	c, err := readCore(io.NewSectionReader(file, 0, info.Size()), o, openFile(info.ModTime()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read core file %s: %w", path, err), file.Close())
	}
	c.closer = file
	return c, nil
}

// Close closes the core, and the files that the process had mapped.
func (c *Core) Close() error {
	err := c.memory.close()
	if c.closer != nil {
		err = errors.Join(err, c.closer.Close())
	}
	return err
}

// Memory returns the memory of the process, by address.
func (c *Core) Memory() io.ReaderAt { return c.memory }

// sized is an open core of a known size.
type sized interface {
	io.ReaderAt
	Size() int64
}

func readCore(r sized, o Options, open opener) (*Core, error) {
	h, err := readHeaders(r)
	if err != nil {
		return nil, err
	}
	c := &Core{Machine: h.machine, auxiliar: map[uint64]uint64{}, memory: newMemory(r, h.loads)}
	if missing := h.end - uint64(r.Size()); h.end > uint64(r.Size()) {
		c.addNote("the core file is truncated: %d of %d bytes are missing", missing, h.end)
	}
	n := notes{core: c}
	for _, p := range h.notes {
		n.readNotes(io.NewSectionReader(r, int64(p.offset), int64(p.filesz)))
	}
	if len(c.Threads) == 0 {
		return nil, errors.New(strings.Join(append(c.Notes, "it has no threads (no note NT_PRSTATUS)"), "; "))
	}
	n.finish()
	if len(n.files) == 0 {
		c.addNote("the core has no list of mapped files (no note NT_FILE): no frame has a name")
	}
	program := c.replaceProgram(n.files, o.Executable)
	c.memory.openFiles(n.files, open, c.addNote)
	if o.Executable != "" && !program {
		c.addNote("%s is not used: the core has no address of its program", o.Executable)
	}
	c.findMappings(h.loads)
	return c, nil
}

// maxNotes bounds the number of Core.Notes.
const maxNotes = 64

func (c *Core) addNote(format string, arguments ...any) {
	if len(c.Notes) < maxNotes {
		c.Notes = append(c.Notes, fmt.Sprintf(format, arguments...))
	}
}

// replaceProgram has the program read from path instead of the file that the core names, unless path is empty. It
// reports whether the core says where the program was.
func (c *Core) replaceProgram(files []mappedFile, path string) bool {
	at, known := c.auxiliar[auxPHDR]
	for _, f := range files {
		if !known || at < f.start || at >= f.end {
			continue
		}
		if path != "" {
			for i := range files {
				if files[i].path == f.path {
					files[i].from = path
				}
			}
		}
		return true
	}
	return false
}

// findMappings finds the executable mappings: pieces of segments, as files were mapped to them.
func (c *Core) findMappings(loads []segment) {
	vdso, hasVDSO := c.auxiliar[auxVDSO]
	for _, s := range loads {
		if s.flags&elf.PF_X == 0 || s.memsz == 0 || s.vaddr >= 1<<63 {
			continue
		}
		m := procfs.Mapping{Start: s.vaddr, End: s.vaddr + s.memsz, Perms: procfs.Read | procfs.Exec}
		if hasVDSO && m.Contains(vdso) {
			m.Path = procfs.VDSO
		}
		c.Mappings = append(c.Mappings, c.memory.split(m)...)
		if len(c.Mappings) > maxSegments {
			return
		}
	}
	for i := range c.memory.files {
		f := &c.memory.files[i]
		at := c.memory.after(f.start)
		missing := at == len(loads) || loads[at].vaddr >= f.end // a segment that gdb has left out
		if missing && f.file != nil && c.memory.mayHoldCode(f) {
			m := procfs.Mapping{Start: f.start, End: f.end, Perms: procfs.Read | procfs.Exec}
			c.Mappings = append(c.Mappings, c.memory.split(m)...)
		}
	}
	slices.SortFunc(c.Mappings, func(a, b procfs.Mapping) int { return cmp.Compare(a.Start, b.Start) })
}
