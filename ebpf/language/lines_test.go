package language

import (
	"math/rand/v2"
	"testing"
)

// TestLineAt compares the lines of a table with the lines that were added to it.
func TestLineAt(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var table []byte
		want := make([]int, 300)
		for ip := range want {
			if ip > 0 {
				want[ip] = want[ip-1]
			}
			for range random.IntN(3) { // the last one counts
				want[ip] = random.IntN(5)
				table = AppendLine(table, uint64(ip), want[ip])
			}
		}
		for ip, line := range want {
			if got := LineAt(table, uint64(ip)); got != line {
				t.Fatalf("line %d at %d, want %d", got, ip, line)
			}
		}
		if got := LineAt(table, NoIP); got != want[len(want)-1] {
			t.Errorf("line %d at the end, want %d", got, want[len(want)-1])
		}
	}
}

// TestFullTable: a table stays within its limit, and ignores invalid lines.
func TestFullTable(t *testing.T) {
	var table []byte
	for ip := range uint64(2 * MaxTable) {
		table = AppendLine(table, ip, int(ip)+1)
	}
	if len(table) != MaxTable || LineAt(table, 100) != 101 {
		t.Errorf("%d bytes, line %d at 100", len(table), LineAt(table, 100))
	}
	table = AppendLine(AppendLine(nil, 0, 7), 5, -3)
	if LineAt(table, 4) != 7 || LineAt(table, 5) != 0 || LineAt(nil, 5) != 0 || LineAt(table[:12], 9) != 7 {
		t.Errorf("%v", table)
	}
}
