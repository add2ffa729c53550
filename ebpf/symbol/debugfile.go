package symbol

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/procfs"
)

// debugFinder finds separate debug files, in the order of the GDB manual,
// "Separate Debug Files": by build ID in the debug directories, then by the name
// in .gnu_debuglink beside the file, in .debug beside it, and in the debug
// directories under the file's own path. Each place is looked at below the
// process's root first and then on this host.
type debugFinder struct {
	dirs  []string
	spill elffile.Spill // for their compressed sections

	mu     sync.Mutex
	remote Fetcher // asked last; nil: nobody
}

func (d *debugFinder) fetcher() Fetcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remote
}

// Fetcher brings debug files from elsewhere; a debuginfod.Client is one.
type Fetcher interface {
	// Path returns the debug file of a build ID if it is there. If not it may be
	// later; the error says how things stand. Path does not wait.
	Path(buildID string) (string, error)
}

// wanted is what a debug file is looked for by.
type wanted struct {
	path, root string // of the object
	buildID    string
	link       string // name in .gnu_debuglink
	crc        uint32
}

func wantedOf(o *Object, file *elffile.File) wanted {
	w := wanted{path: o.Path, root: o.Root, buildID: file.BuildID()}
	w.link, w.crc, _ = file.DebugLink()
	return w
}

// candidate is a path where a debug file may be.
type candidate struct {
	path   string
	byLink bool
}

// find returns the debug file, open, and its path; nil if there is none that has
// symbols and belongs to the file.
func (d *debugFinder) find(w wanted) (debug *elffile.File, name string) {
	candidates := d.candidates(w.path, w.buildID, w.link)
	roots := []string{w.root}
	if w.root != "" && w.root != "/" {
		roots = append(roots, "")
	}
	for _, root := range roots {
		for _, c := range candidates {
			f, err := procfs.OpenBelow(root, c.path)
			if err != nil {
				continue
			}
			if debug := accept(f, w.buildID, w.crc, c.byLink); debug != nil {
				return debug, f.Name()
			}
		}
	}
	return nil, ""
}

// fetch is find for a debug file that is elsewhere. The error says why there is
// none; it is nil if there is nobody to ask.
func (d *debugFinder) fetch(w wanted) (debug *elffile.File, name string, err error) {
	remote := d.fetcher()
	if remote == nil || w.buildID == "" {
		return nil, "", nil
	}
	path, err := remote.Path(w.buildID)
	if err != nil {
		return nil, "", err
	}
	f, err := procfs.OpenBelow("", path)
	if err != nil {
		return nil, "", err
	}
	if debug = accept(f, w.buildID, 0, false); debug == nil {
		return nil, "", fmt.Errorf("%s: not the debug file of build ID %s", path, w.buildID)
	}
	return debug, path, nil
}

func (d *debugFinder) candidates(objectPath, buildID, link string) []candidate {
	var all []candidate
	if len(buildID) > 2 {
		for _, dir := range d.dirs {
			all = append(all, candidate{path: path.Join(dir, ".build-id", buildID[:2], buildID[2:]+".debug")})
		}
	}
	if link == "" || !strings.HasPrefix(objectPath, "/") {
		return all
	}
	own := path.Dir(objectPath)
	all = append(all, candidate{path.Join(own, link), true}, candidate{path.Join(own, ".debug", link), true})
	for _, dir := range d.dirs {
		all = append(all, candidate{path.Join(dir, own, link), true})
	}
	return all
}

// accept returns f as an ELF file if it has symbols or DWARF and belongs to the file with
// that build ID, or if it was named by its link and has that CRC. It closes f if
// not.
func accept(f *os.File, buildID string, crc uint32, byLink bool) *elffile.File {
	debug, err := elffile.NewFromFile(f)
	if err != nil {
		return nil // closed already
	}
	matches := false
	if theirs := debug.BuildID(); buildID != "" && theirs != "" {
		matches = theirs == buildID
	} else if byLink {
		sum, err := fileCRC(f)
		matches = err == nil && sum == crc
	}
	if !matches || !debug.HasSymtab() && !debug.HasSection(debugInfo) {
		debug.Close()
		return nil
	}
	return debug
}

// fileCRC returns the CRC-32 of a file's content, without moving its offset.
func fileCRC(f *os.File) (uint32, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	sum := crc32.NewIEEE()
	_, err = io.Copy(sum, io.NewSectionReader(f, 0, info.Size()))
	return sum.Sum32(), err
}
