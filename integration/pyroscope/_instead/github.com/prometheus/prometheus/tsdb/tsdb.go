// Package tsdb has the parts of Prometheus' package tsdb that Pyroscope uses: the time ranges of blocks.
package tsdb

import (
	"fmt"

	"github.com/oklog/ulid/v2"
)

// BlockMeta is the time range of a block.
type BlockMeta struct {
	ULID             ulid.ULID
	MinTime, MaxTime int64
}

// Overlaps are blocks that start before an earlier block ends.
type Overlaps []BlockMeta

func (o Overlaps) String() string { return fmt.Sprint([]BlockMeta(o)) }

// OverlappingBlocks returns the blocks that start before an earlier block ends. They must be sorted by start.
func OverlappingBlocks(blocks []BlockMeta) Overlaps {
	var found Overlaps
	for i := 1; i < len(blocks); i++ {
		if blocks[i].MinTime < blocks[i-1].MaxTime {
			found = append(found, blocks[i])
		}
	}
	return found
}
