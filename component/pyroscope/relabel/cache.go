package relabel

import (
	"container/list"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component/common/relabel"
)

// cache remembers the results of the rules for label sets. It evicts the least recently used results.
type cache struct {
	program relabel.Program
	size    int
	known   map[string]*list.Element // by the bytes of the labels
	order   *list.List               // of *result, the most recently used in front
}

type result struct {
	key  string
	out  labels.Labels
	kept bool
}

func newCache(program relabel.Program, size int) *cache {
	return &cache{program: program, size: size, known: map[string]*list.Element{}, order: list.New()}
}

// getLabels returns the cached result for in. hit reports whether there is one.
func (c *cache) getLabels(in labels.Labels) (out labels.Labels, kept, hit bool) {
	key := in.Bytes(nil)
	if e, found := c.known[string(key)]; found {
		c.order.MoveToFront(e)
		r := e.Value.(*result)
		return r.out, r.kept, true
	}
	r := &result{key: string(key)}
	var droppedBy int
	r.out, droppedBy = c.program.Labels(in)
	r.kept = droppedBy < 0 && !r.out.IsEmpty()
	c.known[r.key] = c.order.PushFront(r)
	if c.order.Len() > c.size {
		oldest := c.order.Remove(c.order.Back()).(*result)
		delete(c.known, oldest.key)
	}
	return r.out, r.kept, false
}
