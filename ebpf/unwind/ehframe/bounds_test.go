package ehframe_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// TestBounds checks that readers report the limits that they stop at.
func TestBounds(t *testing.T) {
	isHit := func(what string, err error) {
		t.Helper()
		var hit *limit.Error
		if !errors.As(err, &hit) || hit.Reader != limit.CFI {
			t.Errorf("%s: %v is no limit of call frame information", what, err)
		}
	}
	entry := make([]byte, ehframe.MaxEntry+64)
	binary.LittleEndian.PutUint32(entry, ehframe.MaxEntry+1)
	_, err := ehframe.NewReader(section(entry, true)).FDE(0)
	isHit("an entry", err)
	binary.LittleEndian.PutUint32(entry, ehframe.MaxCIE)
	binary.LittleEndian.PutUint32(entry[4:], 1<<32-1)
	_, err = section(entry, true).CIE(0)
	isHit("a CIE", err)

	terminators := make([]byte, 4*(ehframe.MaxScanEntries+1))
	scanned, _ := ehframe.Scan(section(terminators, true))
	isHit("a walk", scanned.Beyond)
	if scanned, _ = ehframe.Scan(section(terminators[4:], true)); scanned.Beyond != nil {
		t.Errorf("a walk to the end: %v", scanned.Beyond)
	}
}
