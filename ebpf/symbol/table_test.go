package symbol

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

// show returns the names of the addresses 0 to n-1 in a table, a word for each run.
func show(t *table, n uint64) string {
	var words []string
	last := ""
	for addr := range n {
		name, ok := t.lookup(addr)
		if !ok {
			name = "-"
		}
		if addr == 0 || name != last {
			words = append(words, fmt.Sprintf("%d:%s", addr, name))
		}
		last = name
	}
	return strings.Join(words, " ")
}

// function is the input for a table in tests.
type function struct {
	name  string
	start uint64
	end   uint64 // exclusive; equal to start if the size is unknown
	limit uint64 // latest end of a function of unknown size
	rank  uint8
}

// namesOf is a pool of functions' names by their index.
type namesOf []function

func (n namesOf) nameAt(place uint32) (string, bool) { return n[place].name, true }

func (n namesOf) bytes() int { return 0 }

// tableOf builds a table whose base is base.
func tableOf(base uint64, functions []function) *table {
	var entries []entry
	for i, f := range functions {
		e := entry{start: uint32(f.start - base), size: uint32(min(f.end-f.start, 1<<32-1)), name: uint32(i),
			rank: f.rank}
		if f.end == f.start {
			e.label, e.size = true, uint32(f.limit-f.start)
		}
		entries = append(entries, e)
	}
	return newTable(base, entries, namesOf(functions))
}

func TestTable(t *testing.T) {
	sized := func(name string, start, end uint64) function { return function{name: name, start: start, end: end} }
	label := func(name string, start, limit uint64) function {
		return function{name: name, start: start, end: start, limit: limit}
	}
	ranked := func(rank uint8, f function) function { f.rank = rank; return f }
	for _, tt := range []struct {
		name      string
		functions []function
		want      string
	}{
		{"none", nil, "0:-"},
		{"gaps are unknown", []function{sized("a", 2, 4), sized("b", 6, 8)}, "0:- 2:a 4:- 6:b 8:-"},
		{"neighbours", []function{sized("b", 4, 8), sized("a", 0, 4)}, "0:a 4:b 8:-"},
		{"one inside another", []function{sized("a", 0, 9), sized("b", 2, 4), sized("c", 6, 7)},
			"0:a 2:b 4:a 6:c 7:a 9:-"},
		{"three deep", []function{sized("a", 0, 9), sized("b", 2, 8), sized("c", 4, 6)}, "0:a 2:b 4:c 6:b 8:a 9:-"},
		{"overlap", []function{sized("a", 0, 5), sized("b", 3, 8)}, "0:a 3:b 8:-"},
		{"same start", []function{sized("a", 0, 3), sized("b", 0, 8)}, "0:a 3:b 8:-"},
		{"same end", []function{sized("a", 0, 8), sized("b", 4, 8), sized("c", 8, 9)}, "0:a 4:b 8:c 9:-"},
		{"label goes on to the next symbol", []function{label("l", 2, 20), sized("a", 5, 7)}, "0:- 2:l 5:a 7:-"},
		{"label goes on to the next label", []function{label("l", 2, 20), label("m", 4, 20), sized("a", 7, 8)},
			"0:- 2:l 4:m 7:a 8:-"},
		{"label ends with its section", []function{label("l", 2, 5), sized("a", 9, 10)}, "0:- 2:l 5:- 9:a 10:-"},
		{"label in no section", []function{label("l", 2, 2)}, "0:-"},
		{"label inside a function", []function{sized("a", 0, 9), label("l", 4, 20)}, "0:a 9:-"},
		{"label at a function's start", []function{sized("a", 2, 4), label("l", 2, 20)}, "0:- 2:a 4:-"},
		{"label behind a function's end", []function{sized("a", 0, 4), label("l", 4, 6)}, "0:a 4:l 6:-"},
		{"global before weak before local", []function{ranked(2, sized("l", 0, 4)), ranked(1, sized("w", 0, 4)),
			ranked(0, sized("ggg", 0, 4))}, "0:ggg 4:-"},
		{"function before label", []function{ranked(3, label("a", 0, 4)), ranked(2, label("b", 0, 4))}, "0:b 4:-"},
		{"fewer underscores", []function{sized("__read", 0, 4), sized("_Z4readv", 4, 8), sized("read_it", 0, 4)},
			"0:read_it 4:_Z4readv 8:-"},
		{"shorter", []function{sized("readlong", 0, 4), sized("read", 0, 4)}, "0:read 4:-"},
		{"alphabet", []function{sized("b", 0, 4), sized("a", 0, 4)}, "0:a 4:-"},
	} {
		table := tableOf(0, tt.functions)
		if got := show(table, 20); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestTableAtTheEndOfTheAddressSpace(t *testing.T) {
	const top, base = 1<<64 - 1, 1<<64 - 1<<32
	table := tableOf(base, []function{{name: "a", start: top - 4, end: top}, {name: "huge", start: base, end: top}})
	for addr, want := range map[uint64]string{top - 4: "a", top - 1: "a", base: "huge", base - 1: "", top: "", 0: ""} {
		if name, _ := table.lookup(addr); name != want {
			t.Errorf("%#x: %q, want %q", addr, name, want)
		}
	}
}

// Compare with the definition, by brute force: the sized function that covers the address, with the last start and then
// the shortest; otherwise the last label before the address with no symbol in between.
func TestTableMatchesDefinition(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 3000 {
		functions := make([]function, random.Intn(8))
		for i := range functions {
			start := uint64(random.Intn(16))
			functions[i] = function{name: fmt.Sprint("f", i), start: start,
				end: start + uint64(max(0, random.Intn(14)-4)), limit: 16}
		}
		table := tableOf(0, functions)
		for addr := range uint64(20) {
			name, _ := table.lookup(addr)
			if want := define(functions, addr); name != want {
				t.Fatalf("%+v:\naddress %d is %q, want %q", functions, addr, name, want)
			}
		}
	}
}

func define(functions []function, addr uint64) string {
	best := -1
	for i, f := range functions {
		if f.start > addr || f.end <= addr {
			continue
		}
		if best < 0 || f.start > functions[best].start ||
			(f.start == functions[best].start && f.end < functions[best].end) {
			best = i // the first among equals: f0 before f1
		}
	}
	if best >= 0 {
		return functions[best].name
	}
	for at := int(addr); at >= 0 && addr < 16; at-- {
		for _, f := range functions {
			if uint64(at) >= f.start && uint64(at) < f.end {
				return "" // ends before addr
			}
		}
		for _, f := range functions {
			if f.end == f.start && f.start == uint64(at) {
				return f.name
			}
		}
	}
	return ""
}
