package mailbox

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewestWins(t *testing.T) {
	m := New[int]()
	for i := range 1000 { // more than any buffer; nobody receives
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
