package dwarfline

import (
	"fmt"
	"time"
)

// work counts down the steps of one lookup.
type work struct{ left int }

// MaxWork bounds the steps of a lookup. It takes about a second and allows 25 million entries: a
// unit of half a gigabyte, many times as large as the unit of a program linked with -flto.
const MaxWork = 1 << 26

// Limits on the steps of all lookups in a file. The line program of a large source file, such as
// the SQLite amalgamation, takes 300,000 steps for an address, so these limits allow a burst of
// 7,000 addresses.
const (
	MaxFileWork       = 1 << 31 // burst, takes half a minute
	FileWorkPerSecond = 1 << 20 // sustained rate
)

// stepsAtOnce is the number of short steps that are counted together.
const stepsAtOnce = 0x1000

func (w *work) spend(steps int) error {
	if w.left -= steps; w.left < 0 {
		return ErrTooMuchWork
	}
	return nil
}

// allowance is the number of steps that lookups in a file may still take. It grows with time.
type allowance struct {
	left int
	at   time.Time // time of the last update
}

// workWithin calls use with the work of one lookup, or returns ErrTooMuchWork if less than MaxWork is
// left.
func (a *allowance) workWithin(now time.Time, use func(*work)) error {
	grown := min(now.Sub(a.at), time.Hour).Seconds() * FileWorkPerSecond // an hour refills the allowance completely
	a.left, a.at = min(a.left+int(grown), MaxFileWork), now
	if a.left < MaxWork {
		return fmt.Errorf("%w: %d steps in this file", ErrTooMuchWork, MaxFileWork)
	}
	w := &work{left: MaxWork}
	defer func() { a.left -= MaxWork - w.left }()
	use(w)
	return nil
}
