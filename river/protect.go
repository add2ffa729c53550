package river

import (
	"fmt"
	"runtime/debug"
)

// panicError is a recovered panic of a component.
type panicError struct {
	value interface{}
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// protect calls f and turns a panic into a *panicError: an error in one component must not end
// other components.
func protect(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return f()
}
