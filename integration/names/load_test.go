package names

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// connections is how many clients ask a server at once, each as soon as it has its answer.
const connections = 4

// load is what clients ask of a server until the test ends.
type load struct {
	answers atomic.Int64
	failed  atomic.Pointer[error] // why a client has stopped
}

// startLoad waits until the server has printed its address, and asks it from then on.
func startLoad(t *testing.T, server *rig.Process) *load {
	t.Helper()
	url, l := addressOf(t, server), &load{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}, Timeout: time.Minute}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() { l.ask(client, url, stop) })
	}
	t.Cleanup(func() {
		close(stop)
		clients.Wait()
		client.CloseIdleConnections()
	})
	return l
}

// address is how servers print theirs.
var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

func addressOf(t *testing.T, server *rig.Process) (url string) {
	t.Helper()
	testkit.Eventually(t, "the server says its address", func() bool {
		if server.Ended() {
			t.Fatalf("the server has ended: %v\n%s", server.Err, server.Output)
		}
		url = address.FindString(server.Output.String())
		return url != ""
	})

	return url
}

// ask makes requests until stop is closed, or one fails.
func (l *load) ask(client *http.Client, url string, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if err := get(client, url); err != nil {
			l.failed.CompareAndSwap(nil, &err)
			return
		}
		l.answers.Add(1)
	}
}

// get makes a request and reads the answer to its end.
func get(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// wait returns once the server has given that many answers more.
func (l *load) wait(t testing.TB, answers int64) {
	t.Helper()
	until := l.answers.Load() + answers
	testkit.Eventually(t, fmt.Sprint(answers, " answers"), func() bool {
		if err := l.failed.Load(); err != nil {
			t.Fatalf("a request failed: %v", *err)
		}
		return l.answers.Load() >= until
	})
}
