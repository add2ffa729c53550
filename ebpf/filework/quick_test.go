package filework

import (
	"testing"
	"time"
)

// TestQuick: who hangs is waited for once. Meanwhile, and for a while afterwards, nobody
// waits for the same mount, nor for a moment for the same user; others go on.
func TestQuick(t *testing.T) {
	var p Pool
	from := func(mount string, owner uint32) func() (Origin, string) {
		return func() (Origin, string) { return Origin{Mount: mount, Owner: owner}, "reading " + mount }
	}
	ran := 0
	run := func() { ran++ }
	if err := p.Quick(from("dead", 1000), run); err != nil || ran != 1 {
		t.Fatalf("%v, ran %d times", err, ran)
	}
	work, release := hang(t)
	if err := p.Quick(from("dead", 1000), work); !isSlow(err, false) || !Hangs(err) {
		t.Fatalf("%v", err)
	}
	if late, hanging, _ := p.Counts(); late != 1 || hanging != 1 || p.Late()["reading dead"] < QuickPatience {
		t.Errorf("%d late, %d hanging, %v", late, hanging, p.Late())
	}
	refused := func() { t.Error("begun") }
	if err := p.Quick(from("dead", 1000), refused); !isSlow(err, true) {
		t.Errorf("of the same mount: %v", err)
	}
	if err := p.Quick(from("other", 1000), refused); !isSlow(err, true) {
		t.Errorf("of the same user: %v", err)
	}
	if err := p.Quick(from("other", 1001), run); err != nil || ran != 2 {
		t.Errorf("of another user: %v, ran %d times", err, ran)
	}
	release()
	until(t, "it ends", func() bool { late, _, _ := p.Counts(); return late == 0 })
	if err := p.Quick(from("dead", 1000), refused); !isSlow(err, true) {
		t.Errorf("soon afterwards: %v", err)
	}
	for r := range p.rests {
		p.rests[r] = time.Now().Add(-time.Second)
	}
	if err := p.Quick(from("dead", 1000), run); err != nil || ran != 3 {
		t.Errorf("later: %v, ran %d times", err, ran)
	}
}

// BenchmarkQuick is what it costs where nothing hangs.
func BenchmarkQuick(b *testing.B) {
	var p Pool
	about := func() (Origin, string) { return Origin{}, "" }
	for b.Loop() {
		if err := p.Quick(about, func() {}); err != nil {
			b.Fatal(err)
		}
	}
}
