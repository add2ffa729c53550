package rig

import (
	"os"
	"slices"
	"sync"
	"testing"
)

// SharedT is used in place of a test to start something for all tests of its package. [Main] calls its cleanups after
// the last test has ended.
type SharedT struct{ testing.TB }

// sharedCleanups are the cleanups of all SharedT.
var sharedCleanups struct {
	mu    sync.Mutex
	calls []func()
}

// Cleanup registers f to be called after the tests of the package have ended.
func (SharedT) Cleanup(f func()) {
	sharedCleanups.mu.Lock()
	defer sharedCleanups.mu.Unlock()
	sharedCleanups.calls = append(sharedCleanups.calls, f)
}

// Failed returns false: messages written at the end belong to no test.
func (SharedT) Failed() bool { return false }

// TempDir returns a folder that is removed when the tests of the package have ended.
func (t SharedT) TempDir() string {
	dir, err := os.MkdirTemp("", "headwater-shared")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// endShared calls the cleanups, the last one first.
func endShared() {
	sharedCleanups.mu.Lock()
	calls := sharedCleanups.calls
	sharedCleanups.mu.Unlock()
	for _, call := range slices.Backward(calls) {
		call()
	}
}
