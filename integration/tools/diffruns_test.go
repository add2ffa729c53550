package tools

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/headwater/headwater/flame/compare"
	records "github.com/headwater/headwater/integration/testkit/record"
)

// diffRounds is how many rounds of testdata/slower.c a recording has.
const diffRounds = 8000

// diffRuns is what comparisons found that share no recording.
type diffRuns struct {
	Slower int `json:"slower"` // comparisons of two builds; in one of them price is a fifth slower
	First  int `json:"first"`  // number with price as the first function of the report
	Alone  int `json:"alone"`  // number with price as the only function

	Equal   int `json:"equal"`   // comparisons of one build with itself
	Changed int `json:"changed"` // number with a function reported as changed
	False   int `json:"false"`   // number with such a function that has not changed by the program's own clock

	Bounds []bounds `json:"bounds"` // of price, where it is slower
}

// bounds are how many times as much a function takes, by diff and by the program's own clock.
type bounds struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Really float64 `json:"really"`
}

// TestDiffRuns compares two builds HEADWATER_DIFF_RUNS times, and one build with itself four times as often, each time
// with three new recordings of each side, in turns. The slower function must be the first each time, and for equal
// builds no function may be reported that has not changed according to the program's own clock.
//
// make test leaves it out: TestDiff compares fewer recordings with each other.
func TestDiffRuns(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv("HEADWATER_DIFF_RUNS"))
	if err != nil {
		t.Skip("recordings of minutes; make -C integration bench-diff runs it")
	}
	save := records.Test(t, "diff", fmt.Sprintf("make -C integration bench-diff DIFFS=%d RECORD=1", runs))
	old, slower := build(t, "shop", 100), build(t, "shop.new", 120)
	recorded(t, old, diffRounds) // reads the program, the C library and ours from the disk
	recorded(t, slower, diffRounds)
	var found diffRuns
	for range runs {
		found.slower(t, old, slower)
		for range 4 {
			found.equal(t, old)
		}
	}
	t.Logf("%+v", found)
	if found.First < found.Slower || found.False > 0 {
		t.Errorf("price was the first of %d of %d, and of %d equal builds %d had a false alarm", found.First, found.Slower,
			found.Equal, found.False)
	}
	save(found)
}

// sides records two programs three times each, in turns.
func sides(t *testing.T, base, after string) (a, b side) {
	for range 3 {
		a, b = append(a, recorded(t, base, diffRounds)), append(b, recorded(t, after, diffRounds))
	}
	return a, b
}

func (d *diffRuns) slower(t *testing.T, old, slower string) {
	base, after := sides(t, old, slower)
	r, _ := diff(t, "--per", "cpu", base.String(), after.String())
	d.Slower++
	if len(r.Changed) == 0 || r.Changed[0].Name != "price" {
		t.Logf("price is not the first: %+v", r.Changed)
		return
	}
	d.First++
	if len(r.Changed) == 1 {
		d.Alone++
	}
	was, _ := base.took("price")
	is, _ := after.took("price")
	d.Bounds = append(d.Bounds, bounds{r.Changed[0].Low, *r.Changed[0].High, is / was})
}

func (d *diffRuns) equal(t *testing.T, program string) {
	base, after := sides(t, program, program)
	r, _ := diff(t, "--per", "cpu", base.String(), after.String())
	d.Equal++
	if len(r.Changed) > 0 {
		d.Changed++
	}
	if isFalse(r, base, after) {
		t.Logf("false alarm: %+v", r.Changed)
		d.False++
	}
}

// isFalse reports whether something is called changed that is not by the program's own clock.
func isFalse(r compare.Report, base, after side) bool {
	for _, c := range r.Changed {
		was, ok := base.took(c.Name)
		is, _ := after.took(c.Name)
		if !ok || is < 1.03*was && was < 1.03*is {
			return true
		}
	}
	return false
}
