package river

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// dummy is a node without effect.
type dummy string

func (d dummy) id() string            { return string(d) }
func (d dummy) configure(*graph)      {}
func (d dummy) evaluate() error       { return nil }
func (d dummy) exported() interface{} { return nil }

func TestQueueHoldsANodeOnce(t *testing.T) {
	q := newEvaluationQueue()
	for range 5 {
		q.putNode(dummy("a"))
		q.putNode(dummy("b"))
	}
	require.Equal(t, 2, q.len())

	first, _, ok := q.takeNode()
	require.True(t, ok)
	require.Equal(t, dummy("a"), first)
	q.putNode(dummy("a")) // while a worker has it: evaluated once more, after that worker
	q.putNode(dummy("a"))
	second, _, _ := q.takeNode()
	require.Equal(t, dummy("b"), second)
	require.Equal(t, 1, q.len())

	taken := make(chan node)
	go func() {
		n, _, _ := q.takeNode()
		taken <- n
	}()
	q.markDone(dummy("b"))
	select {
	case n := <-taken:
		t.Fatalf("%s is with two workers", n.id())
	default:
	}
	q.markDone(dummy("a"))
	require.Equal(t, dummy("a"), <-taken)
}

func TestQueueCloses(t *testing.T) {
	q := newEvaluationQueue()
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				n, _, ok := q.takeNode()
				if !ok {
					return
				}
				q.markDone(n)
			}
		})
	}
	for i := range 1000 {
		q.putNode(dummy(fmt.Sprint(i % 10)))
	}
	q.close()
	workers.Wait()
	q.putNode(dummy("late"))
	_, _, ok := q.takeNode()
	require.False(t, ok)
}
