// Package limit has the error of readers of untrusted data that stop at a limit, and counts these errors. Each such
// reader has its limits as constants at its top; SECURITY.md lists them.
package limit

import (
	"errors"
	"maps"
	"sync"
)

// Reader is the name of a kind of input that is read within limits, in snake_case, for metrics.
type Reader string

// The readers of the profiler.
const (
	ELF          Reader = "elf"          // headers, notes, symbols and other parts of ELF images
	Decompressed Reader = "decompressed" // compressed sections
	DebugLink    Reader = "debug_link"   // files named by .gnu_debuglink
	MiniDebug    Reader = "mini_debug"   // .gnu_debugdata
	DWARF        Reader = "dwarf"        // debug info, also of dwz, split and packaged files
	CFI          Reader = "cfi"          // .eh_frame and .debug_frame
	Copied       Reader = "copied"       // files whose reads may hang
	Maps         Reader = "maps"         // /proc/PID/maps
	Functions    Reader = "functions"    // code objects of interpreters, in memory
)

// Error reports that a reader stopped at a limit.
type Error struct {
	Reader Reader
	Err    error // describes the exceeded limit
}

// Error returns the text of Err.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Hit wraps err in an Error of a reader.
func Hit(r Reader, err error) error { return &Error{Reader: r, Err: err} }

// Counter counts hits of limits by reader. The zero value is ready to use, and a nil Counter ignores all errors. Its
// methods may be called concurrently.
type Counter struct {
	mu   sync.Mutex
	hits map[Reader]uint64
}

// Note counts the Errors wrapped in err, each reader once.
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

// Hits returns the counts so far.
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
