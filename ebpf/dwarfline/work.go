package dwarfline

import (
	"fmt"
	"time"
)

// work bounds the steps of one lookup.
type work struct{ left int }

// MaxWork bounds a lookup. It is about a second's worth, of 25 million entries: a unit
// of half a gigabyte, many times as large as that of a program linked with -flto.
const MaxWork = 1 << 26

// Bounds of all lookups in a file. The line program of a large source file, such as
// SQLite's in one piece, takes 300,000 steps an address: 7,000 addresses at once.
const (
	MaxFileWork       = 1 << 31 // steps at once, half a minute's worth
	FileWorkPerSecond = 1 << 20 // in the long run
)

// stepsAtOnce is after how many short steps they are counted.
const stepsAtOnce = 0x1000

func (w *work) spend(steps int) error {
	if w.left -= steps; w.left < 0 {
		return ErrTooMuchWork
	}
	return nil
}

// allowance is what lookups in a file may still spend. It grows with time.
type allowance struct {
	left int
	at   time.Time // when it was so
}

// work calls use with the work of one lookup, or returns ErrTooMuchWork if that is not
// left.
func (a *allowance) work(now time.Time, use func(*work)) error {
	grown := min(now.Sub(a.at), time.Hour).Seconds() * FileWorkPerSecond // an hour is enough for all
	a.left, a.at = min(a.left+int(grown), MaxFileWork), now
	if a.left < MaxWork {
		return fmt.Errorf("%w: %d steps in this file", ErrTooMuchWork, MaxFileWork)
	}
	w := &work{left: MaxWork}
	defer func() { a.left -= MaxWork - w.left }()
	use(w)
	return nil
}
