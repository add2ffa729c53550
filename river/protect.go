package river

import (
	"fmt"
	"runtime/debug"
)

// panicError is a panic of a component, caught.
type panicError struct {
	value interface{}
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// protect calls f. A panic in it becomes a *panicError: one component's mistake
// must not end the others.
func protect(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return f()
}
