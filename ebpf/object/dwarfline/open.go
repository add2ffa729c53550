package dwarfline

import (
	"errors"
	"fmt"
	"path"
	"runtime/debug"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// OpenOptions describe the file and access to other files.
type OpenOptions struct {
	// Paths of the executable and of its debug file. The .dwo and .dwp files and the supplementary
	// file are searched next to them.
	Paths []string
	// OpenFile opens a file that the data names. If nil, there are no other files.
	OpenFile   func(path string) (*elffile.File, error)
	DebugDirs  []string       // directories of debug files, "/usr/lib/debug"
	Spill      *elffile.Spill // for compressed sections; a new one if nil
	CacheBytes int            // see Options
}

// sectionPlace is the destination of a section.
type sectionPlace struct {
	name string
	data *[]byte
}

// sectionsOf lists the sections and their destinations. .debug_info comes first, because the other
// sections are useless without units in it.
func sectionsOf(s *Sections) []sectionPlace {
	return []sectionPlace{
		{".debug_info", &s.Info}, {".debug_abbrev", &s.Abbrev}, {".debug_line", &s.Line},
		{".debug_line_str", &s.LineStr},
		{".debug_str", &s.Str}, {".debug_str_offsets", &s.StrOffsets}, {".debug_addr", &s.Addr},
		{".debug_ranges", &s.Ranges}, {".debug_rnglists", &s.RngLists}, {".debug_cu_index", &s.CUIndex},
		{".debug_aranges", &s.Aranges},
	}
}

// checkUnits returns the error of .debug_info if it has no units.
func (s *Sections) checkUnits() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&err)
	f := &file{Sections: s}
	if err = indexUnits(f, &work{left: MaxWork}); len(f.units) > 0 {
		return nil // the damaged rest is ignored
	}
	return firstError(err, ErrNoInfo)
}

// MapSections maps the DWARF sections of a file. suffix is ".dwo" for the sections of a .dwo or
// .dwp file. The file may be closed before the sections. If .debug_info has no units (for example
// if it is all zeros), MapSections returns an error and does not decompress the other sections.
func MapSections(f *elffile.File, suffix string, spill *elffile.Spill) (*Sections, error) {
	s := &Sections{Order: f.ByteOrder()}
	var maps []*elffile.Mapped
	s.Close = func() {
		for _, m := range maps {
			m.Close()
		}
	}
	s.Drop = func() {
		for _, m := range maps {
			m.Drop()
		}
	}
	for _, place := range sectionsOf(s) {
		name := place.name
		if name != ".debug_cu_index" {
			name += suffix
		}
		m, err := f.MapSection(name, spill)
		if errors.Is(err, elffile.ErrNoSection) {
			continue
		}
		if err != nil {
			s.Close()
			return nil, err
		}
		maps = append(maps, m)
		*place.data = m.Data
		if place.data == &s.Info && len(m.Data) > 0 {
			if err := s.checkUnits(); err != nil {
				s.Close()
				return nil, err
			}
		}
	}
	return s, nil
}

// Open returns the Data of an executable or of its debug file. The file may be closed immediately
// afterwards. The error is ErrNoInfo if the file has no entries.
func Open(f *elffile.File, o OpenOptions) (*Data, error) {
	if !f.HasSection(".debug_info") && !f.HasSection(".zdebug_info") {
		return nil, ErrNoInfo
	}
	if o.Spill == nil {
		o.Spill = &elffile.Spill{}
	}
	s, err := MapSections(f, "", o.Spill)
	if err != nil {
		return nil, err
	}
	opts := Options{CacheBytes: o.CacheBytes}
	if o.OpenFile != nil {
		if name, id, ok := f.AltLink(); ok {
			opts.Supplementary = func() (*Sections, error) { return o.supplementary(name, id) }
		}
		opts.Package = o.openDWP
		opts.Split = o.openDWO
	}
	d, err := New(s, opts)
	if err != nil {
		s.Close()
	}
	return d, err
}

// supplementary opens the file into which dwz moved common entries. Its build ID must match the
// link.
func (o *OpenOptions) supplementary(name, id string) (*Sections, error) {
	candidates := o.nextTo(name)
	if len(id) > 2 {
		for _, dir := range o.DebugDirs {
			candidates = append(candidates, path.Join(dir, ".build-id", id[:2], id[2:]+".debug"))
		}
	}
	for _, candidate := range candidates {
		f, err := o.OpenFile(candidate)
		if err != nil {
			continue
		}
		if f.BuildID() == id || f.BuildID() == "" {
			s, err := MapSections(f, "", o.Spill)
			f.Close()
			return s, err
		}
		f.Close()
	}
	return nil, fmt.Errorf("%s, build ID %s: %w", name, id, errNoSupplementary)
}

// nextTo returns an absolute path unchanged, and a relative path in the folders of the executable
// and of its debug file.
func (o *OpenOptions) nextTo(name string) []string {
	if path.IsAbs(name) {
		return []string{name}
	}
	var all []string
	for _, p := range o.Paths {
		all = append(all, path.Join(path.Dir(p), name))
	}
	return all
}

// openDWP opens the package of the .dwo files.
func (o *OpenOptions) openDWP() (*Sections, error) {
	for _, p := range o.Paths {
		if f, err := o.OpenFile(p + ".dwp"); err == nil {
			s, err := MapSections(f, ".dwo", o.Spill)
			f.Close()
			return s, err
		}
	}
	return nil, nil
}

// openDWO opens the file of a split unit. It tries the path that the compiler wrote, and then the
// folders of the executable and of its debug file.
func (o *OpenOptions) openDWO(u SplitUnit) (*Sections, error) {
	candidates := []string{u.Name}
	if !path.IsAbs(u.Name) {
		candidates = append(o.nextTo(u.Name), path.Join(u.CompDir, u.Name))
	}
	candidates = append(candidates, o.nextTo(path.Base(u.Name))...)
	for _, candidate := range candidates {
		if f, err := o.OpenFile(candidate); err == nil {
			s, err := MapSections(f, ".dwo", o.Spill)
			f.Close()
			return s, err
		}
	}
	return nil, errNoSplit
}
