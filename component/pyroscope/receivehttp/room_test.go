package receivehttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/go-kit/log"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
)

// startWithRoom starts a component whose requests may hold that many bytes.
func startWithRoom(t *testing.T, config Server, size int64) (c *Component, addr string) {
	t.Helper()
	c = New(component.Options{ID: "x", Logger: log.NewNopLogger()},
		Arguments{HTTP: config, ForwardTo: []pyroscope.Appendable{pyroscope.NoopAppendable{}}})
	c.room.size, c.room.bodyTime = size, 300*time.Millisecond
	run(t, c)
	return c, c.listening(t)
}

// zeros is a body of left zeros; its end waits until release is closed.
type zeros struct {
	left    int
	release <-chan struct{}
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		<-z.release
		return 0, io.EOF
	}
	n := min(len(p), z.left)
	clear(p[:n])
	z.left -= n
	return n, nil
}

// packedZeros is a compressed body of size zeros, which lacks its last byte until release is closed.
func packedZeros(t *testing.T, size int, release <-chan struct{}) io.Reader {
	t.Helper()
	var out bytes.Buffer
	packer := gzip.NewWriter(&out)
	_, err := packer.Write(make([]byte, size))
	require.NoError(t, err)
	require.NoError(t, packer.Close())
	whole := out.Bytes()
	return io.MultiReader(bytes.NewReader(whole[:len(whole)-1]), &zeros{release: release},
		bytes.NewReader(whole[len(whole)-1:]))
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Slow requests hold at most the room, plain or compressed; further requests are asked to retry, and have room after
// the slow ones have ended.
func TestRoom(t *testing.T) {
	const size, each, clients = 32 << 20, 4 << 20, 32
	for path, body := range map[string]func(release <-chan struct{}) io.Reader{
		"/ingest?name=app": func(release <-chan struct{}) io.Reader {
			return &zeros{left: each,
				release: release}
		},
		"/push.v1.PusherService/Push": func(release <-chan struct{}) io.Reader { return packedZeros(t, each, release) },
	} {
		t.Run(path, func(t *testing.T) {
			config := local()
			config.ServerReadTimeout = 10 * time.Minute
			c, addr := startWithRoom(t, config, size)
			release := make(chan struct{})
			post := func(release <-chan struct{}) *http.Response {
				request, err := http.NewRequest("POST", "http://"+addr+path, body(release))
				require.NoError(t, err)
				request.Header.Set("Content-Type", "application/proto")
				if path[1] == 'p' {
					request.Header.Set("Content-Encoding", "gzip")
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					return nil // the answer came before the body had been sent
				}
				response.Body.Close()
				return response
			}
			before := heap()
			answers := make(chan *http.Response, clients)
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() { answers <- post(release) })
			}
			const fit = size / each
			require.Eventually(t, func() bool {
				require.LessOrEqual(t, c.room.held.Load(), int64(size+clients*maxRead),
					"a read at most is counted before it is refused")
				// Requests that grow at once may refuse more of each other than there is no room for.
				refused := int64(testutil.ToFloat64(c.room.refused))
				return refused >= clients-fit && c.room.held.Load() >= (clients-refused-1)*each
			}, time.Minute, time.Millisecond)
			require.Positive(t, c.room.held.Load())
			grown := heap() - before
			require.Less(t, grown, int64(3*size), "each buffer is at most twice what it holds")
			t.Logf("%d MiB of requests held, heap grown by %d MiB", c.room.held.Load()>>20, grown>>20)
			close(release)
			wg.Wait()
			close(answers)
			statuses := map[int]int{}
			for response := range answers {
				if response == nil {
					statuses[503]++
					continue
				}
				statuses[response.StatusCode]++
				if response.StatusCode == 503 {
					require.Equal(t, "5", response.Header.Get("Retry-After"))
				}
			}
			require.GreaterOrEqual(t, statuses[503], clients-fit, "%v", statuses)
			require.Equal(t, int(testutil.ToFloat64(c.room.refused)), statuses[503], "%v", statuses)
			require.Zero(t, c.room.held.Load())

			refused := testutil.ToFloat64(c.room.refused)
			require.NotNil(t, post(release))
			require.Equal(t, refused, testutil.ToFloat64(c.room.refused), "there is room again")
		})
	}
}

// A client that stops sending loses its room when the time for reading is over, also
// where the server's own is without bound.
func TestStalledClient(t *testing.T) {
	for _, timeout := range []time.Duration{300 * time.Millisecond, 0} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v,HTTP/2=%v", timeout, http2), func(t *testing.T) { testStalledClient(t, timeout, http2) })
		}
	}
}

func testStalledClient(t *testing.T, timeout time.Duration, http2 bool) {
	config := local()
	config.ServerReadTimeout = timeout
	c, addr := startWithRoom(t, config, 1<<20)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	client := http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer client.CloseIdleConnections()
	release := make(chan struct{})
	answered := make(chan error, 1)
	go func() {
		response, err := client.Post("http://"+addr+"/ingest?name=app", "", &zeros{left: 800_000, release: release})
		if err == nil {
			response.Body.Close()
		}
		answered <- err
	}()
	require.Eventually(t, func() bool { return c.room.held.Load() == 800_000 }, 2*time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return c.room.held.Load() == 0 }, 2*time.Minute, time.Millisecond)
	close(release)
	<-answered
}

func TestPushCompressed(t *testing.T) {
	r := &receiver{}
	addr := start(t, r, local()).listening(t)
	for name, test := range map[string]struct {
		options []connect.ClientOption
		size    int
		want    connect.Code
	}{
		"gzip":            {[]connect.ClientOption{connect.WithSendGzip()}, 3, 0},
		"gzip, too large": {[]connect.ClientOption{connect.WithSendGzip()}, MaxRequest, connect.CodeInvalidArgument},
		"gRPC-Web":        {[]connect.ClientOption{connect.WithGRPCWeb()}, 3, 0},
		"gRPC-Web, compressed": {[]connect.ClientOption{connect.WithGRPCWeb(), connect.WithSendGzip()}, 3,
			connect.CodeUnimplemented},
		"gRPC-Web, one byte beyond": {[]connect.ClientOption{connect.WithGRPCWeb()}, MaxRequest,
			connect.CodeResourceExhausted}, // a message that says so before it is read
	} {
		t.Run(name, func(t *testing.T) {
			client := pushv1connect.NewPusherServiceClient(http.DefaultClient, "http://"+addr, test.options...)
			r.samples = nil
			_, err := client.Push(context.Background(),
				connect.NewRequest(&pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{
					{Samples: []*pushv1.RawSample{{RawProfile: make([]byte, test.size)}}},
				}}))
			if test.want != 0 {
				require.Equal(t, test.want, connect.CodeOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Len(t, r.samples, 1)
			require.Len(t, r.samples[0].RawProfile, test.size)
		})
	}
}

// Many empty messages take far more memory than bytes.
func TestPushOfManyMessages(t *testing.T) {
	addr := start(t, &receiver{}, local()).listening(t)
	series := func(samples int) *pushv1.PushRequest {
		s := &pushv1.RawProfileSeries{}
		for range samples {
			s.Samples = append(s.Samples, &pushv1.RawSample{})
		}
		return &pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{s}}
	}
	for _, options := range [][]connect.ClientOption{nil, {connect.WithProtoJSON()}} {
		client := pushv1connect.NewPusherServiceClient(http.DefaultClient, "http://"+addr, options...)
		_, err := client.Push(context.Background(), connect.NewRequest(series(freeMessages-1)))
		require.NoError(t, err)
		_, err = client.Push(context.Background(), connect.NewRequest(series(2*freeMessages)))
		require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "series, labels and samples")
	}
}
