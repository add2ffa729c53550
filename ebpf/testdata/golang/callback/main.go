// Callback lets the C library sort by a function in Go, for some seconds of CPU time.
package main

/*
#include <stdlib.h>

int compareInGo(void *a, void *b);
void sortInC(int *list, int n);
*/
import "C"

import (
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	list := make([]C.int, 64)
	for used() < time.Duration(seconds)*time.Second {
		for i := range list {
			list[i] = C.int(i * 7919 % 61)
		}
		C.sortInC(&list[0], C.int(len(list)))
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

//export compareInGo
func compareInGo(a, b unsafe.Pointer) C.int {
	return C.int(less(int(*(*C.int)(a)), int(*(*C.int)(b))))
}

//go:noinline
func less(a, b int) int {
	x := 0
	for i := range 10000 {
		x ^= x<<3 + i
	}
	return a - b + x&0
}
