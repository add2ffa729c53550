// Package limit is what readers of bytes that others control say when they stop at
// one of their bounds, and what counts it. Each such reader has its bounds as
// constants at its top; SECURITY.md lists them.
package limit

import (
	"errors"
	"maps"
	"sync"
)

// Reader names a kind of input that is read within bounds, in snake_case, for
// metrics.
type Reader string

// The readers of the profiler.
const (
	ELF          Reader = "elf"          // headers, notes, symbols and other parts of ELF images
	Decompressed Reader = "decompressed" // compressed sections
	DebugLink    Reader = "debug_link"   // files that .gnu_debuglink names
	MiniDebug    Reader = "mini_debug"   // .gnu_debugdata
	DWARF        Reader = "dwarf"        // debug info, also of dwz, split and packaged files
	CFI          Reader = "cfi"          // .eh_frame and .debug_frame
	Copied       Reader = "copied"       // files that may hang when they are read
	Maps         Reader = "maps"         // /proc/PID/maps
	Functions    Reader = "functions"    // code objects of interpreters, in memory
)

// Error says that a reader stopped at a bound.
type Error struct {
	Reader Reader
	Err    error // says what was beyond the bound
}

// Error returns what Err says.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Hit returns err as an Error of a reader.
func Hit(r Reader, err error) error { return &Error{Reader: r, Err: err} }

// Counter counts by reader how often a bound was hit. The zero value is useful and
// nil counts nothing. Its methods may be called concurrently.
type Counter struct {
	mu   sync.Mutex
	hits map[Reader]uint64
}

// Note counts the Errors that err is made of, each reader once.
func (c *Counter) Note(err error) {
	if c == nil || err == nil {
		return
	}
	found := map[Reader]bool{}
	collect(err, found)
	if len(found) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hits == nil {
		c.hits = map[Reader]uint64{}
	}
	for reader := range found {
		c.hits[reader]++
	}
}

// Hits returns the counts since the beginning.
func (c *Counter) Hits() map[Reader]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.hits)
}

func collect(err error, found map[Reader]bool) {
	if e, ok := err.(*Error); ok {
		found[e.Reader] = true
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			collect(inner, found)
		}
	default:
		if inner := errors.Unwrap(err); inner != nil {
			collect(inner, found)
		}
	}
}
