package limit

import (
	"errors"
	"fmt"
	"maps"
	"testing"
)

func TestCounter(t *testing.T) {
	tooLarge := errors.New("too large")
	hit := fmt.Errorf("section .x: %w", Hit(ELF, tooLarge))
	if !errors.Is(hit, tooLarge) || hit.Error() != "section .x: too large" {
		t.Errorf("%v", hit)
	}
	var c Counter
	c.Note(nil)
	c.Note(tooLarge)
	c.Note(hit)
	c.Note(errors.Join(hit, fmt.Errorf("b: %w", Hit(DWARF, hit)), hit))
	if want := map[Reader]uint64{ELF: 2, DWARF: 1}; !maps.Equal(c.Hits(), want) {
		t.Errorf("%v, want %v", c.Hits(), want)
	}
	(*Counter)(nil).Note(hit)
}
