package kernel

import (
	"fmt"
	"testing"
)

// TestTexts: texts are as in the record, known texts are not allocated again, and at most maxTexts are kept.
func TestTexts(t *testing.T) {
	known := texts{}
	for i := range 3 * maxTexts {
		want := fmt.Sprintf("/usr/lib/%d.so", i)
		if got := known.cString([]byte(want + "\x00\x01rest")); got != want {
			t.Fatalf("text %q, want %q", got, want)
		}
		if len(known) > maxTexts {
			t.Fatalf("%d texts are kept", len(known))
		}
	}
	again := []byte("/usr/lib/libc.so.6\x00")
	known.cString(again)
	if n := testing.AllocsPerRun(100, func() { known.cString(again) }); n > 0 {
		t.Errorf("%v allocations for a text that is known", n)
	}
}
