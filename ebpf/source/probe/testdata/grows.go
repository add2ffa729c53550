// Calls a function below which the stack grows, in new goroutines, as often as its first argument says.
package main

import (
	"fmt"
	"os"
	"strconv"
)

//go:noinline
func grow(n int) int {
	var a [256]byte
	a[n%256] = 1
	if n == 0 {
		return int(a[0])
	}
	return grow(n-1) + int(a[3])
}

//go:noinline
func target(n int) int { return grow(n) + 1 }

func main() {
	calls, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		panic(err)
	}
	sum := 0
	for range calls {
		done := make(chan int)
		go func() { done <- target(2000) }()
		sum += <-done
	}
	fmt.Println("sum", sum)
}
