// Plain computes, allocates and sets timers for some seconds of CPU time and writes what
// Go's own profiler saw of it: plain SECONDS FILE.
package main

import (
	"os"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	sink atomic.Int64
	held [256][]*int
)

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
	go allocate()
	go timers()
	for used() < time.Duration(seconds)*time.Second {
		burn(100)
	}
	pprof.StopCPUProfile()
	if err := file.Close(); err != nil {
		panic(err)
	}
}

// used returns the CPU time that the process has used. The clock on the wall
// goes on while others have the CPU.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

//go:noinline
func burn(n int) {
	for range n {
		sink.Add(int64(middle(n)))
	}
}

//go:noinline
func middle(n int) int {
	var local [40]int // a large frame
	for i := range local {
		local[i] = leaf(n * 10)
	}
	return local[n%len(local)] + frame(n)
}

// leaf has no frame: it calls nothing and has no locals in memory.
//
//go:noinline
func leaf(n int) (x int) {
	for i := range n {
		x ^= x<<3 + i
	}
	return x
}

// frame is a leaf that has a frame.
//
//go:noinline
func frame(n int) (x int) {
	var table [16]int
	for i := range 1000 {
		table[i&15] += i * n
		x += table[(i+n)&15]
	}
	return x
}

// allocate keeps the garbage collector busy.
func allocate() {
	for i := 0; ; i++ {
		list := make([]*int, 1000)
		for j := range list {
			list[j] = new(int)
		}
		held[i%len(held)] = list
	}
}

// timers grows stacks of new goroutines and lets timers run out.
func timers() {
	for {
		done := make(chan bool)
		time.AfterFunc(50*time.Microsecond, func() { done <- grow(50) > 0 })
		<-done
	}
}

//go:noinline
func grow(n int) int {
	var local [64]int
	if n == 0 {
		return 1
	}
	local[n%64] = grow(n - 1)
	return local[n%64]
}
