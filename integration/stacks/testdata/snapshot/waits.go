// A server of goroutines that wait in known ways, each on a thread of its own. SIGQUIT has the runtime print them.
package main

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

//go:noinline
func read(pipe int) {
	var b [1]byte
	if _, err := syscall.Read(pipe, b[:]); err != nil {
		panic(err)
	}
}

//go:noinline
func nested(pipe, depth int) {
	if depth > 0 {
		nested(pipe, depth-1)
		return
	}
	read(pipe)
}

func main() {
	for depth := range 10 {
		var pipe [2]int
		if err := syscall.Pipe(pipe[:]); err != nil {
			panic(err)
		}
		go func() {
			runtime.LockOSThread()
			nested(pipe[0], depth)
		}()
	}
	time.Sleep(300 * time.Millisecond)
	fmt.Println("ready")
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		panic(err)
	}
	read(pipe[0])
}
