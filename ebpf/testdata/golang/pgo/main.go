// Pgo calls a hot function that the compiler inlines only if a profile says that it is hot.
package main

var sink uint

func main() {
	for n := uint(0); ; n++ {
		sink += sum(n, 1000)
	}
}

//go:noinline
func sum(seed uint, n int) (total uint) {
	for range n {
		seed = mix(seed)
		total += seed
	}
	return total
}

// mix is a little too large to be inlined without a profile.
func mix(x uint) uint {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 29
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 27
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 31
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 29
	if x&1 == 0 {
		x += 0x9e3779b97f4a7c15
	}
	return x
}
