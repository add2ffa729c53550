// Golang sorts, formats and fills maps for some seconds, with what the compiler inlines.
package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

type pair[K, V any] struct {
	key K
	val V
}

func swap[K, V any](p pair[K, V]) pair[V, K] { return pair[V, K]{p.val, p.key} }

func mix(n uint64) uint64 { return n*6364136223846793005 + 1442695040888963407 }

func twice(n uint64) uint64 { return mix(mix(n)) >> 8 }

//go:noinline
func shuffle(n uint64, list []uint64) uint64 {
	for i := range list {
		n = twice(n)
		list[i] = n
	}
	slices.SortFunc(list, func(a, b uint64) int { return int(twice(a)>>40) - int(twice(b)>>40) })
	return n
}

//go:noinline
func text(list []uint64, seen map[string]uint64) int {
	var b strings.Builder
	for _, n := range list {
		p := swap(swap(pair[uint64, string]{n % 512, fmt.Sprint(n % 512)}))
		b.WriteString(p.val)
		seen[p.val] += p.key
	}
	return b.Len()
}

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	seen, list, n, total := map[string]uint64{}, make([]uint64, 2000), uint64(1), 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		n = shuffle(n, list)
		total += text(list, seen)
	}
	fmt.Println(total)
}
