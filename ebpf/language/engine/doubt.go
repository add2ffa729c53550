package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// A process whose code objects keep changing writes over them: a sample then shows code objects of several moments, and
// such samples cost most. The functions of the process are not looked up for some time, which gets longer each time. A
// program that only keeps creating functions has some new ones in a sample. In most samples they are few, or most of
// their addresses had no other code object a moment ago.
const (
	spoiltCodes  = 16 // a sample with this many wrong code objects is spoilt, if they are half of the new ones
	judgedOnce   = 64 // samples that are judged together: if half are spoilt, the process rests
	ShortestRest = 10 * time.Second
	LongestRest  = 10 * time.Minute
)

var errSpoilt = errors.New("functions are overwritten all the time")

// news counts the code objects of a process that were not known before, and the wrong ones among them. A code object is
// wrong if it cannot be read, or if its address had another code object before.
type news struct{ fresh, wrong int }

// doubt judges whether the code objects of a process keep changing. Safe for concurrent use.
type doubt struct {
	mu      sync.Mutex
	samples int           // seen since the last judgement
	spoilt  int           // the spoilt ones
	rest    time.Duration // length of the last rest, reduced by each judgement without spoilt samples; 0 if none
	until   time.Time     // end of the last rest
}

// judge takes the news of a sample into account. It returns how long the process rests from now on, 0 if it does not.
func (d *doubt) judge(n news, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.samples++
	if n.wrong >= spoiltCodes && 2*n.wrong >= n.fresh {
		d.spoilt++
	}
	if d.samples < judgedOnce {
		return 0
	}
	spoilt := d.spoilt
	d.samples, d.spoilt = 0, 0
	if spoilt == 0 {
		d.rest -= d.rest / 16
	}
	if 2*spoilt < judgedOnce {
		return 0
	}
	d.rest = min(max(ShortestRest, 2*d.rest), LongestRest)
	d.until = now.Add(d.rest)
	return d.rest
}

// rests reports whether lookups are suspended now.
func (d *doubt) rests(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return now.Before(d.until)
}

// spoilt returns the error that the functions of a process are not named for some time.
func spoilt(pid uint32, rest time.Duration) error {
	return fmt.Errorf("process %d: %w: its functions are not named for %v", pid, errSpoilt, rest)
}
