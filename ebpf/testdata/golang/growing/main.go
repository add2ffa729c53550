// Growing makes the stacks of new goroutines larger and collects garbage for some seconds of CPU time, and writes what
// Go's own profiler saw of it: growing SECONDS FILE. Go 1.12 and later build it.
package main

import (
	"os"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"
)

type tree struct{ left, right *tree }

var held [2]*tree

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	file, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		panic(err)
	}
	for i := 0; used() < time.Duration(seconds)*time.Second; i++ {
		done := make(chan int)
		go handle(done)
		<-done
		if i%64 == 0 {
			held[i/64%len(held)] = plant(12)
		}
	}
	pprof.StopCPUProfile()
	if err := file.Close(); err != nil {
		panic(err)
	}
}

// used returns the CPU time that the process has used.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

//go:noinline
func handle(done chan int) { done <- grow(40) }

// grow is too deep for the stack that a goroutine begins with.
//
//go:noinline
func grow(n int) int {
	var local [512]int
	if n == 0 {
		return 1
	}
	local[n%512] = grow(n - 1)
	return local[n%512]
}

//go:noinline
func plant(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{plant(depth - 1), plant(depth - 1)}
}
