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
		q.put(dummy("a"))
		q.put(dummy("b"))
	}
	require.Equal(t, 2, q.len())

	first, _, ok := q.take()
	require.True(t, ok)
	require.Equal(t, dummy("a"), first)
	q.put(dummy("a")) // while a worker has it: evaluated once more, after that worker
	q.put(dummy("a"))
	second, _, _ := q.take()
	require.Equal(t, dummy("b"), second)
	require.Equal(t, 1, q.len())

	taken := make(chan node)
	go func() {
		n, _, _ := q.take()
		taken <- n
	}()
	q.done(dummy("b"))
	select {
	case n := <-taken:
		t.Fatalf("%s is with two workers", n.id())
	default:
	}
	q.done(dummy("a"))
	require.Equal(t, dummy("a"), <-taken)
}

func TestQueueCloses(t *testing.T) {
	q := newEvaluationQueue()
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				n, _, ok := q.take()
				if !ok {
					return
				}
				q.done(n)
			}
		})
	}
	for i := range 1000 {
		q.put(dummy(fmt.Sprint(i % 10)))
	}
	q.close()
	workers.Wait()
	q.put(dummy("late"))
	_, _, ok := q.take()
	require.False(t, ok)
}
