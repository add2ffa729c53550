package symbol

import (
	"bytes"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// A missing debug file is searched again after firstLook, then after twice the interval each time, up to lastLook.
const (
	firstLook = 5 * time.Second
	lastLook  = 5 * time.Minute
)

// Refresh searches for missing debug files again. A debug file that was added at run time is used from then on, also
// for addresses named before. Refresh also allows another read of files that failed because file descriptors or memory
// ran out. It is cheap and may be called often.
func (s *Symbolizer) Refresh() { s.refresh(time.Now()) }

func (s *Symbolizer) refresh(now time.Time) {
	for _, id := range s.tables.takeScarce() {
		s.frames.forget(id)
	}
	all, due := s.tables.missing(now)
	for _, e := range due {
		file, err := s.finder.Find(*e.status.missing)
		s.limits.Note(err)
		if file.File != nil {
			file.Close()
			s.forgetNames(e)
		}
	}
	if s.finder.fetcher() == nil {
		return
	}
	for _, e := range all {
		debug, _, err := s.finder.fetch(*e.status.missing)
		if debug != nil {
			debug.Close()
			s.forgetNames(e)
			continue
		}
		s.tables.setFetch(e, err)
	}
}

// SetFetcher sets the Fetcher of debug files; nil for none.
func (s *Symbolizer) SetFetcher(f Fetcher) {
	s.finder.mu.Lock()
	defer s.finder.mu.Unlock()
	s.finder.remote = f
}

func (s *Symbolizer) forgetNames(e *tableEntry) {
	for _, id := range s.tables.dropTable(e) {
		s.frames.forget(id)
	}
}

// Explain returns the reason why functions of an object have no names, or no lines although there is debug info, and
// the package to install on this host or in the object's root, as one sentence. It returns "" if all is well or no
// address of the object was named. The first call for an object may read the package manager's lists.
func (s *Symbolizer) Explain(o *Object) string {
	status, ok := s.Status(o)
	if !ok {
		return ""
	}
	pkg := ""
	if status.missing != nil {
		if pkg = s.owners.debugPackage(o.Root, o.Path); pkg == "" && sameOnHost(status.missing) {
			pkg = s.owners.debugPackage("", o.Path)
		}
	}
	dir := debugfile.DefaultDir
	if dirs := s.finder.Dirs(); len(dirs) > 0 {
		dir = dirs[0]
	}
	return status.explain(dir, pkg)
}

// sameOnHost reports whether an object from another root, whose process may be gone, is this host's file of that path.
func sameOnHost(w *debugfile.Wanted) bool {
	if w.Root == "" || w.BuildID == "" {
		return false
	}
	file, err := elffile.Open(w.Path)
	if err != nil {
		return false
	}
	defer file.Close()
	return file.BuildID() == w.BuildID
}

// packages remembers the packages with the debug files of programs.
type packages struct {
	mu    sync.Mutex
	known map[string]string // by root and path
}

// Limits of a search through dpkg's lists.
const (
	maxPackages  = 1 << 16  // remembered files
	maxListBytes = 64 << 20 // bytes read
)

// debugPackage returns the Debian package with the debug symbols of a file, such as "fio-dbgsym", or "" if dpkg does
// not know the file.
func (p *packages) debugPackage(root, file string) string {
	key := root + "\x00" + file
	p.mu.Lock()
	pkg, ok := p.known[key]
	p.mu.Unlock()
	if ok {
		return pkg
	}
	switch owner := dpkgOwner(root, "/var/lib/dpkg/info", file); owner {
	case "":
	case "libc6":
		pkg = "libc6-dbg"
	default:
		pkg = owner + "-dbgsym"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPackages {
		p.known = map[string]string{}
	}
	p.known[key] = pkg
	return pkg
}

// dpkgOwner returns the package that lists a file, or "" if there is none. Lists may have the file's path from before
// /bin, /lib and /sbin were moved to /usr.
func dpkgOwner(root, dir, file string) string {
	if !path.IsAbs(file) {
		return ""
	}
	lines := [][]byte{[]byte("\n" + file + "\n")}
	if moved, ok := strings.CutPrefix(file, "/usr"); ok {
		lines = append(lines, []byte("\n"+moved+"\n"))
	} else {
		lines = append(lines, []byte("\n/usr"+file+"\n"))
	}
	entries, err := procfs.ReadLocalDir(root, dir)
	if err != nil {
		return ""
	}
	budget := int64(maxListBytes)
	for _, info := range entries {
		name, ok := strings.CutSuffix(info.Name(), ".list")
		if !ok || !info.Mode().IsRegular() {
			continue
		}
		if budget -= info.Size(); budget < 0 {
			return ""
		}
		list, err := readList(root, path.Join(dir, info.Name()), info.Size())
		if err != nil {
			continue
		}
		for _, line := range lines {
			if bytes.Contains(list, line) {
				name, _, _ = strings.Cut(name, ":")
				return name
			}
		}
	}
	return ""
}

// readList reads a list of a package manager. size is its size in the directory.
func readList(root, name string, size int64) ([]byte, error) {
	f, err := procfs.Open(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, size))
}
