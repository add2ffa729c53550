// Package memberlist stands in for dskit's store of keys that gossips with other processes.
package memberlist

import (
	"errors"
	"time"

	"github.com/grafana/dskit/kv/codec"
	"github.com/grafana/dskit/kv/consul"
)

// KV has no fields.
type KV struct{}

// NewClient fails.
func NewClient(*KV, codec.Codec) (*consul.Client, error) {
	return nil, errors.New("memberlist is left out of this build")
}

// Mergeable has the methods that a value must have for gossip.
type Mergeable interface {
	Merge(other Mergeable, localCAS bool) (change Mergeable, err error)
	MergeContent() []string
	RemoveTombstones(limit time.Time) (total, removed int)
	Clone() Mergeable
}
