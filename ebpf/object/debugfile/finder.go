// Package debugfile finds the separate debug file of an ELF file: the file that "objcopy --only-keep-debug" makes, with
// the symbols, DWARF data and .debug_frame that the stripped file lacks.
package debugfile

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// DefaultDir is the directory of separate debug files on most distributions.
const DefaultDir = "/usr/lib/debug"

// Finder finds separate debug files, in the order of the GDB manual, "Separate Debug Files": by build ID in the debug
// directories, then by the name in .gnu_debuglink next to the file, in .debug next to it, and in the debug directories
// under the file's own path. Each place is checked first below the process's root, then on this host. Its methods may
// be called concurrently.
type Finder struct {
	dirs []string
	work *filework.Pool // for the search
	sums *checkSums     // of debug files found by link
}

// New returns a Finder that searches on the workers of work; nil means workers of its own. dirs are the directories of
// separate debug files; nil means DefaultDir.
func New(work *filework.Pool, dirs []string) *Finder {
	if work == nil {
		work = &filework.Pool{}
	}
	if dirs == nil {
		dirs = []string{DefaultDir}
	}
	return &Finder{dirs: dirs, work: work, sums: newCheckSums(MaxLinked)}
}

// Dirs returns the directories of separate debug files. Callers must not change the slice.
func (d *Finder) Dirs() []string { return d.dirs }

// Close stops slow work, such as reading a debug file for its checksum. Searches after Close may find no file.
func (d *Finder) Close() { d.sums.ended.Store(true) }

// Wanted is the search key of a debug file.
type Wanted struct {
	Path, Root string // of the ELF file; Root is the root directory of its process, "" for this host's
	Owner      uint32 // user ID of the process
	BuildID    string // lower-case hex, "" if there is none
	// Useful reports whether a debug file has the data that the caller wants. If it has not, the search continues.
	Useful func(*elffile.File) bool

	fileOwner uint32
	link      string // name in .gnu_debuglink
	crc       uint32
}

// Identify sets the properties of w by which the debug file of an ELF file is found.
func (w *Wanted) Identify(file *elffile.File) {
	w.BuildID = file.BuildID()
	w.link, w.crc, _ = file.DebugLink()
	var stat unix.Stat_t
	if unix.Fstat(file.Fd(), &stat) == nil {
		w.fileOwner = stat.Uid
	}
}

// Possible reports whether the ELF file says anything by which its debug file can be found.
func (w *Wanted) Possible() bool { return len(w.BuildID) > 2 || w.link != "" }

// candidate is a possible path of a debug file.
type candidate struct {
	path   string
	byLink bool
}

// findPatience is the time limit of a search below one root.
const findPatience = 2 * time.Second

// Find returns the debug file, open, if there is one that is useful and belongs to the ELF file. The error has the
// places that took too long, and the reasons why a found file could not be matched. It blocks for 4 s at most.
func (d *Finder) Find(w Wanted) (file Found, slow error) {
	roots := []string{w.Root}
	if w.Root != "" && w.Root != "/" {
		roots = append(roots, "")
	}
	for _, root := range roots {
		what := "looking for the debug file of " + w.Path
		file, err := filework.Get(d.work, w.origin(root), what, findPatience,
			func() (Found, error) { return d.findBelow(root, &w) }, Found.Close)
		if file.File != nil {
			return file, nil
		}
		slow = errors.Join(slow, err)
	}
	return Found{}, slow
}

// Found is a debug file.
type Found struct {
	File *elffile.File // nil if there is none
	Path string
	Own  bool // it is below a root other than this host's: the debug file of an equal program elsewhere may differ
}

// Close closes the file, if there is one.
func (f Found) Close() {
	if f.File != nil {
		f.File.Close()
	}
}

// origin returns the origin of files below a root for w: a folder that hangs must not block the search in other
// folders.
func (w *Wanted) origin(root string) filework.Origin {
	namespace, err := os.Readlink(path.Join(path.Dir(path.Clean(root)), "ns/mnt"))
	if err != nil {
		namespace = root
	}
	return filework.Origin{Mount: fmt.Sprintf("%s of %s of user %d", path.Dir(w.Path), namespace, w.Owner),
		Owner: w.Owner}
}

// findBelow searches the places below one root. Files on file systems that a user other than this host's administrator
// can block are not used, because they are read much later; nor are files of a user who could not have written the
// program.
func (d *Finder) findBelow(root string, w *Wanted) (Found, error) {
	var unclear error
	for _, c := range d.candidates(w) {
		f, err := procfs.OpenOwned(root, c.path, w.fileOwner)
		if err != nil {
			continue
		}
		if _, local := f.(*os.File); root != "" && !local {
			f.Close()
			continue
		}
		file, err := d.accept(f, w, c.byLink)
		if file != nil {
			return Found{file, f.Name(), !hostRoot(root)}, nil
		}
		unclear = errors.Join(unclear, err)
	}
	return Found{}, unclear
}

// hostRoot reports whether the root directory of a process is the root directory of this host.
func hostRoot(root string) bool {
	return root == "" || root == "/" || procfs.SameFolder(root, "/")
}

// Open opens a file of this host as the debug file that w wants. It returns nil if the file is not useful, or not of
// w's build ID.
func (d *Finder) Open(w Wanted, name string) (*elffile.File, error) {
	f, err := procfs.Open("", name)
	if err != nil {
		return nil, err
	}
	return d.accept(f, &w, false)
}

func (d *Finder) candidates(w *Wanted) []candidate {
	var all []candidate
	if len(w.BuildID) > 2 {
		for _, dir := range d.dirs {
			all = append(all, candidate{path: PathByBuildID(dir, w.BuildID)})
		}
	}
	if w.link == "" || !strings.HasPrefix(w.Path, "/") {
		return all
	}
	own := path.Dir(w.Path)
	all = append(all, candidate{path.Join(own, w.link), true}, candidate{path.Join(own, ".debug", w.link), true})
	for _, dir := range d.dirs {
		all = append(all, candidate{path.Join(dir, own, w.link), true})
	}
	return all
}

// PathByBuildID returns the path of the debug file of a build ID of more than two digits in a debug directory.
func PathByBuildID(dir, buildID string) string {
	return path.Join(dir, ".build-id", buildID[:2], buildID[2:]+".debug")
}

// accept returns f as an ELF file if it is useful and matches w: by build ID, or, for a file found by link, by CRC.
// Otherwise it closes f and returns nil. The error is the reason why the match could not be checked.
func (d *Finder) accept(f procfs.File, w *Wanted, byLink bool) (*elffile.File, error) {
	debug, err := elffile.NewFromFile(f)
	if err != nil {
		return nil, nil // NewFromFile has closed f
	}
	matches := w.Useful(debug)
	if theirs := debug.BuildID(); w.BuildID != "" && theirs != "" {
		matches = matches && theirs == w.BuildID
	} else if matches = matches && byLink; matches {
		var sum uint32
		sum, err = d.sums.sumOf(f)
		matches = err == nil && sum == w.crc
	}
	if !matches {
		debug.Close()
		return nil, err
	}
	return debug, nil
}
