// Package order sorts the short lists that reports and pages show.
package order

import "sort"

// Stable sorts a list like slices.SortStableFunc, which is compiled once for each type, to 15 to 30 kB of the binary.
// Stable is one function for all types, and is slower.
func Stable[T any](list []T, compare func(a, b T) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
