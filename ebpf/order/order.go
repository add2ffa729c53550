// Package order sorts the short lists that reports and pages show.
package order

import "sort"

// Stable sorts a list as slices.SortStableFunc does. That is compiled once for each type,
// to 15 to 30 kB of the binary; this is one function for all types, and takes longer.
func Stable[T any](list []T, compare func(a, b T) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
