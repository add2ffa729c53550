package symbol

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/dwarfline"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// dwarf names code from DWARF data, with source lines and inlined callers.
type dwarf struct {
	open    func() (*dwarfline.Data, error)
	symbols []source // with the linker's names of functions

	opened bool
	data   *dwarfline.Data // nil before it is opened, and if it cannot be opened
	err    error           // the first one
	again  time.Time       // when to open it again if other work had to come first
}

// busyWait is the wait before the next attempt to open data that was refused because of other work.
const busyWait = time.Minute

// addDWARF puts the DWARF data of an object, or of its debug file, before the sources without lines.
func addDWARF(sources []source, o *Object, files *files, finder *debugFinder) []source {
	file := files.object
	if !hasDWARF(file) {
		if file = files.debug; file == nil || !hasDWARF(file) {
			return sources
		}
	}
	at := 0
	if len(sources) > 0 {
		if _, isGo := sources[0].(*golang); isGo { // Go's table has lines, and is smaller
			at = 1
		}
	}
	d := &dwarf{symbols: slices.Clone(sources[at:]), open: func() (*dwarfline.Data, error) {
		return dwarfline.Open(file, dwarfline.OpenOptions{
			Paths:     []string{o.Path, strings.TrimPrefix(files.debugPath, o.Root)},
			OpenFile:  func(name string) (*elffile.File, error) { return openSibling(o.Root, files.debugPath, name) },
			DebugDirs: finder.Dirs(),
			Spill:     &finder.spill,
		})
	}}
	return slices.Insert(sources, at, source(d))
}

func hasDWARF(file *elffile.File) bool {
	return file.HasSection(debugInfo) || file.HasSection(".zdebug_info")
}

// openSibling opens a file that the DWARF data of an object refers to: below the process's root or, if the debug file
// is this host's, on this host.
func openSibling(root, debugPath, name string) (*elffile.File, error) {
	f, err := procfs.Open(root, name)
	if err != nil && root != "" && debugPath != "" && !strings.HasPrefix(debugPath, root+"/") {
		f, err = procfs.Open("", name)
	}
	if err != nil {
		return nil, err
	}
	return elffile.NewFromFile(f)
}

// frames implements source. Damaged data is ignored as long as other data can be read.
func (d *dwarf) frames(at uint64) []Frame {
	if !d.opened || !d.again.IsZero() && time.Now().After(d.again) {
		d.opened, d.again = true, time.Time{}
		if d.data, d.err = d.open(); errors.Is(d.err, elffile.ErrBusy) {
			d.again = time.Now().Add(busyWait)
		}
	}
	if d.data == nil {
		return nil
	}
	found, err := d.data.Frames(at)
	if d.err == nil {
		d.err = err
	}
	if len(found) == 0 {
		if d.data.Empty() { // its sections may take a gigabyte
			d.data.Close()
			d.data = nil
		}
		return nil
	}
	if last := &found[len(found)-1]; !last.Linkage {
		if name := d.symbol(at); name != "" {
			last.Function = name
		}
		if last.Function == "" {
			return nil
		}
	}
	frames := make([]Frame, 0, len(found))
	for _, f := range found {
		if f.Function != "" {
			frames = append(frames, Frame{Function: withoutTypeArguments(validUTF8(f.Function)),
				File: validUTF8(f.File), StartLine: f.StartLine, Line: f.Line, Kind: Native})
		}
	}
	return frames
}

// symbol returns the linker's name of the function at an address, or "" if it is unknown.
func (d *dwarf) symbol(at uint64) string {
	for _, s := range d.symbols {
		if frames := s.frames(at); len(frames) > 0 {
			return frames[len(frames)-1].Function
		}
	}
	return ""
}

func (d *dwarf) bytes() int {
	if d.data == nil {
		return 0
	}
	return d.data.Bytes()
}

// trim implements trimmer.
func (d *dwarf) trimUnused() {
	if d.data != nil {
		d.data.Trim()
	}
}

// close implements closer.
func (d *dwarf) close() {
	if d.data != nil {
		d.data.Close()
	}
	d.opened, d.data, d.again = true, nil, time.Time{}
}

// problem implements prober.
func (d *dwarf) problem() error {
	if errors.Is(d.err, dwarfline.ErrNoInfo) {
		return nil
	}
	if errors.Is(d.err, dwarfline.ErrTooMuchWork) {
		return limit.Hit(limit.DWARF, d.err)
	}
	return d.err
}
