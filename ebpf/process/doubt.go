package process

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// A process whose code objects turn out to be others all the time has them written over: what a sample has of them is
// of no one moment, and costs most. It is not looked up then, for ever longer times. A program that makes functions all
// the time has some new ones in a sample: not many at once, of which most are where others were a moment ago, in most
// samples.
const (
	spoiltCodes  = 16 // code objects in a sample that are wrong, and half of those that are new: it is spoilt
	judgedOnce   = 64 // samples: if half of them are spoilt, the process rests
	ShortestRest = 10 * time.Second
	LongestRest  = 10 * time.Minute
)

var errSpoilt = errors.New("code objects become others all the time")

// news are the code objects of a process that were not known before, and how many of those are wrong: none, or where
// another one was met before.
type news struct{ fresh, wrong int }

// doubt is there about the code objects of a process. Safe for concurrent use.
type doubt struct {
	mu      sync.Mutex
	samples int           // that are judged together
	spoilt  int           // of those
	rest    time.Duration // the last one, less for each such time without spoilt samples; 0: none
	until   time.Time     // when it ends
}

// judge takes the news of a sample into account. It returns how long the process rests from then on, 0 if it does not.
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

// rests reports whether nothing is looked up now.
func (d *doubt) rests(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return now.Before(d.until)
}

// spoilt says why functions of a process are not named for a while.
func spoilt(pid uint32, rest time.Duration) error {
	return fmt.Errorf("process %d: %w: its functions are not named for %v", pid, errSpoilt, rest)
}
