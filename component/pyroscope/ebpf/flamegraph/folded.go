package flamegraph

import (
	"context"
	"fmt"

	"github.com/headwater/headwater/ebpf/trie"
)

// folded is what a selection has of one profile. Almost all profiles of a flame graph are in the next one, too, of
// another range or part of it, and adding this takes a fraction of reading the profile again.
type folded struct {
	*trie.Folded
	part
}

// size implements sized.
func (f *folded) size() int64 { return f.Size() + 512 }

// fold returns what a selection has of a profile, whatever the times of the selection are.
func (p *Page) fold(k *kept, s selection) (*folded, error) {
	s.from, s.to = k.start, k.end
	key := fmt.Sprintf("%s %d %s", k.target.id, k.dataSize(), s.values().Encode())
	return p.folds.get(context.Background(), key, func() (*folded, error) {
		samples, of, err := s.samples(k)
		if err != nil {
			return nil, err
		}
		b := trie.NewBuilder(flameName)
		if err := b.Add(samples); err != nil {
			return nil, err
		}
		return &folded{b.Fold(), of}, nil
	})
}
