package engine

import (
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/language"
)

// TestDoubt: a process whose code objects keep changing rests longer each time, and shorter again after a quiet time. A
// process that makes some functions all the time, or many at once, does not rest.
func TestDoubt(t *testing.T) {
	const period = 10 * time.Millisecond
	now := time.Now()
	// rested returns how long a process rests in a period of equal samples.
	rested := func(x *doubt, length time.Duration, n news) (sum time.Duration) {
		for end := now.Add(length); now.Before(end); now = now.Add(period) {
			if x.rests(now) {
				sum += period
			} else {
				x.judge(n, now)
			}
		}
		return sum
	}
	for what, n := range map[string]news{
		"a few new functions where others were": {fresh: 15, wrong: 15},
		"many new functions":                    {fresh: 96, wrong: 40},
		"no new functions":                      {},
	} {
		if got := rested(&doubt{}, time.Hour, n); got > 0 {
			t.Errorf("%s: it rests for %v", what, got)
		}
	}
	var once doubt
	rested(&once, (judgedOnce/2-1)*period, news{fresh: 96, wrong: 96})
	if got := rested(&once, time.Minute, news{}); got > 0 {
		t.Errorf("once many functions where others were: it rests for %v", got)
	}
	var bad doubt
	worst := news{fresh: 96, wrong: 48}
	if got := rested(&bad, time.Minute, worst); got < time.Minute*9/10 {
		t.Errorf("it rests for %v of a minute", got)
	}
	if got := rested(&bad, time.Hour, worst); got < time.Hour*99/100 || bad.rest != LongestRest {
		t.Errorf("it rests for %v of an hour, at last %v", got, bad.rest)
	}
	if rested(&bad, time.Hour, news{}); bad.rest >= ShortestRest {
		t.Errorf("after a quiet hour it rests for %v", bad.rest)
	}
}

// TestNews: the new code objects of a sample are counted once.
func TestNews(t *testing.T) {
	f := newFunctions(newRoom())
	now := time.Now()
	learn := func(pid uint32, code, cookie uint64) {
		f.learn(codeKey{pid, code, cookie}, language.Function{Name: "f", Whole: true}, now)
	}
	expect := func(what string, pid uint32, want news) {
		t.Helper()
		if got := f.takeNews(pid); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	learn(1, 0x1000, 7)
	learn(1, 0x2000, 7)
	learn(1, 0x1000, 7)
	learn(2, 0x1000, 8)
	expect("two new ones", 1, news{fresh: 2})
	expect("another process", 2, news{fresh: 1})
	expect("again", 1, news{})
	learn(1, 0x1000, 8)
	f.giveUp(codeKey{1, 0x3000, 9}, now)
	expect("another one at an address, and none", 1, news{fresh: 2, wrong: 2})
	f.dropProcess(1)
	learn(1, 0x1000, 9)
	expect("another one at an address that was forgotten", 1, news{fresh: 1, wrong: 1})
	f.trimUnused(now.Add(time.Hour))
	if len(f.latest)+len(f.news)+f.room.bytes != 0 {
		t.Errorf("%d addresses, %d processes, %d bytes are left", len(f.latest), len(f.news), f.room.bytes)
	}
	learn(1, 0x1000, 9)
	expect("an address that was not met lately", 1, news{fresh: 1})
}
