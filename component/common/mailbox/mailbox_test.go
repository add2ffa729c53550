package mailbox

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNewestWins(t *testing.T) {
	m := New[int]()
	for i := range 1000 { // more than any buffer, without a receiver
		m.Send(i)
	}
	require.Equal(t, 999, <-m.Receive())
	require.Empty(t, m.Receive())
	m.Send(7)
	require.Equal(t, 7, <-m.Receive())
}

func TestConcurrentSenders(t *testing.T) {
	m := New[int]()
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for i := range 1000 {
				m.Send(i)
			}
		})
	}
	senders.Wait()
	require.Equal(t, 999, <-m.Receive(), "every sender's last value is 999")
	require.Empty(t, m.Receive())
}

func TestUpdate(t *testing.T) {
	m := New[int]()
	require.NoError(t, m.Update(7))
	require.EqualError(t, m.Update("x"), "arguments are a string, not a int")
	require.Equal(t, 7, <-m.Receive())
}

// TestTurns runs on the clock of a synctest bubble, where waiting takes no time.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New[time.Duration]()
		ctx, cancel := context.WithCancel(t.Context())
		type turn struct {
			at    time.Duration
			value time.Duration
			fresh bool
		}
		var turns []turn
		begin := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for value, fresh := range m.Turns(ctx, func(d time.Duration) time.Duration { return d }) {
				turns = append(turns, turn{time.Since(begin), value, fresh})
			}
		}()
		time.Sleep(3 * time.Hour) // no value, no turn
		m.Send(time.Second)
		time.Sleep(2500 * time.Millisecond)
		m.Send(time.Minute)
		time.Sleep(90 * time.Second)
		cancel()
		<-ended
		start := 3 * time.Hour
		require.Equal(t, []turn{
			{start, time.Second, true},
			{start + 1*time.Second, time.Second, false},
			{start + 2*time.Second, time.Second, false},
			{start + 2500*time.Millisecond, time.Minute, true},
			{start + 62500*time.Millisecond, time.Minute, false},
		}, turns)
	})
}

func TestTurnsEndByBreak(t *testing.T) {
	m := New[int]()
	m.Send(1)
	for value, fresh := range m.Turns(t.Context(), func(int) time.Duration { return time.Hour }) {
		require.Equal(t, 1, value)
		require.True(t, fresh)
		break
	}
}
