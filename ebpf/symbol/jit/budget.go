package jit

import (
	"sync/atomic"
	"unsafe"
)

// DefaultBytes is the memory for the names of all processes together.
const DefaultBytes = 64 << 20

// budget is the memory for the names of all processes. A process may take half of the memory that all other processes
// leave, so that no process takes all of it.
type budget struct {
	limit   int64
	used    atomic.Int64
	dropped atomic.Uint64 // functions dropped because of the budget
}

// share is a process's part of the budget. One goroutine uses it at a time.
type share struct {
	of   *budget
	used int64
}

// takeBytes reserves memory. It reports whether enough is left.
func (s *share) takeBytes(bytes int64) bool {
	others := s.of.used.Add(bytes) - s.used - bytes
	if bytes > 0 && s.used+bytes > (s.of.limit-others)/2 {
		s.of.used.Add(-bytes)
		return false
	}
	s.used += bytes
	return true
}

// freeBytes returns all memory of the share to the budget.
func (s *share) freeBytes() { s.takeBytes(-s.used) }

// roomFor returns a slice with room for n more elements, and reserves the memory. It grows by a quarter: doubling would
// take more memory than is used.
func roomFor[T any](s *share, all []T, n int) ([]T, bool) {
	if cap(all)-len(all) >= n {
		return all, true
	}
	size := int64(unsafe.Sizeof(*new(T)))
	want := len(all) + max(n, len(all)/4, 64)
	if !s.takeBytes(int64(want-cap(all)) * size) {
		return all, false
	}
	grown := make([]T, len(all), want)
	copy(grown, all)
	return grown, true
}
