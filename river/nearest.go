package river

import (
	"iter"
	"strings"
)

// nearest returns the candidate that is probably meant by a misspelled name, "" if there is none.
// At most a third of the name's last word may be wrong.
func nearest(name string, candidates iter.Seq[string]) (best string) {
	word := len(name) - 1 - strings.LastIndexByte(name, '.')
	least := min(word-1, max(1, word/3)) + 1
	for c := range candidates {
		if d := editDistance(name, c); d < least || d == least && best != "" && c < best {
			best, least = c, d
		}
	}
	return best
}

// editDistance returns the minimum number of bytes to insert, delete, replace or swap with the next
// byte to turn a into b (Damerau-Levenshtein distance, optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
