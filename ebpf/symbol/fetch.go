package symbol

import (
	"fmt"
	"sync"

	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// debugFinder finds separate debug files with names, on disk or by a Fetcher.
type debugFinder struct {
	*debugfile.Finder
	spill elffile.Spill // for compressed sections of debug files

	mu     sync.Mutex
	remote Fetcher // asked last; nil if there is none
}

func (d *debugFinder) fetcher() Fetcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remote
}

// Fetcher downloads debug files; a debuginfod.Client is one.
type Fetcher interface {
	// Path returns the debug file of a build ID if it is available. If not, it may become available later; the error
	// has the current state. Path does not block.
	Path(buildID string) (string, error)
}

// wantedOf returns the search key of the debug file with an object's names.
func wantedOf(o *Object, file *elffile.File) debugfile.Wanted {
	w := debugfile.Wanted{Path: o.Path, Root: o.Root, Owner: o.Owner, Useful: func(debug *elffile.File) bool {
		return debug.HasSymtab() || debug.HasSection(debugInfo)
	}}
	w.Identify(file)
	return w
}

// fetch is Find for a debug file that must be downloaded. The error is the reason why there is none; it is nil if there
// is no Fetcher.
func (d *debugFinder) fetch(w debugfile.Wanted) (debug *elffile.File, name string, err error) {
	remote := d.fetcher()
	if remote == nil || w.BuildID == "" {
		return nil, "", nil
	}
	path, err := remote.Path(w.BuildID)
	if err != nil {
		return nil, "", err
	}
	debug, err = d.Open(w, path)
	if err == nil && debug == nil {
		err = fmt.Errorf("%s: not the debug file of build ID %s", path, w.BuildID)
	}
	if err != nil {
		return nil, "", err
	}
	return debug, path, nil
}
