// Spends CPU time, as much as the argument says, in a function below 20 calls of another one, which a sort calls
// through a closure.
package main

import (
	"fmt"
	"os"
	"sort"
	"syscall"
	"time"
)

//go:noinline
func burn(rounds int) (sum int) {
	for i := range rounds {
		sum = sum*31 + i
	}
	return sum
}

//go:noinline
func call(depth int) int {
	if depth > 0 {
		return call(depth-1) + depth
	}
	numbers := []int{3, 1, 2}
	sort.Slice(numbers, func(i, j int) bool { return burn(100_000) != 1 && numbers[i] < numbers[j] })
	return numbers[0]
}

// used is the CPU time that this process has used.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func main() {
	length, err := time.ParseDuration(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	sum := 0
	for used() < length {
		sum += call(20)
	}
	fmt.Println(sum > 0)
}
