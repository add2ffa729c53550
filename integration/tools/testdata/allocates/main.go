// Allocates for ever, by the allocator of Go.
package main

var kept [64][]byte

func main() {
	for i := 0; ; i++ {
		kept[i%len(kept)] = make([]byte, 1<<20)
	}
}
