package profile

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
)

// TestHurry checks that hurry limits the wait of the current round to the wait of a last round.
func TestHurry(t *testing.T) { synctest.Test(t, testHurry) }

func testHurry(t *testing.T) {
	files, release := &filework.Pool{}, make(chan struct{})
	r := newReaders(files)
	defer time.Sleep(time.Minute) // until the pool has noticed the release
	defer close(release)
	slow := &work{job: job{exe: 1}, what: "a slow file", read: func() { <-release },
		use: func() { t.Error("it is not read") }}
	const patience = 10 * lastPatience
	began := time.Now()
	time.AfterFunc(100*time.Millisecond, r.hurry)
	rest := r.runWork([]*work{slow}, patience)
	if took := time.Since(began); took < lastPatience || took > lastPatience+time.Second {
		t.Errorf("it took %v, want about %v", took, lastPatience)
	}
	if len(rest) != 1 {
		t.Errorf("%d pieces of work are left, want 1", len(rest))
	}
	if left := r.timeLeft(time.Now(), patience); left > lastPatience {
		t.Errorf("the last round may wait %v", left)
	}
}
