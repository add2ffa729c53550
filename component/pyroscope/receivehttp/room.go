package receivehttp

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headwater/headwater/component"
)

// Bounds of requests.
const (
	MaxRequest  = 64 << 20        // bytes of a request, decompressed
	MaxInFlight = 128 << 20       // bytes of all requests that are not answered yet, decompressed
	MaxBodyTime = 2 * time.Minute // for a request's body if server_read_timeout is 0
	MaxHeader   = 64 << 10        // bytes of a request's headers
)

// retryAfter is the Retry-After value, in seconds, of an answer to a request without room.
const retryAfter = "5"

// maxRead bounds the bytes that one Read reads before they are counted.
const maxRead = 64 << 10

var (
	errNoRoom = connect.NewError(connect.CodeUnavailable,
		errors.New("other requests use all memory for profiles; try again later"))
	// Not CodeResourceExhausted: clients send a request again after its status 429.
	errTooLong = connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("request of more than %d MiB", MaxRequest>>20))
)

// room bounds the memory for the bodies of all requests together.
type room struct {
	size     int64
	bodyTime time.Duration // for a body if the server has no read timeout
	held     atomic.Int64
	refused  prometheus.Counter
}

func newRoom(size int64, register prometheus.Registerer) *room {
	r := &room{size: size, bodyTime: MaxBodyTime,
		refused: component.Registered(register, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pyroscope_receive_http_refused_total",
			Help: "Requests refused with 503, because requests in flight used all memory for profiles.",
		}))}
	component.Registered(register, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pyroscope_receive_http_in_flight_bytes",
		Help: "Decompressed bytes of requests in flight.",
	}, func() float64 { return float64(r.held.Load()) }))
	return r
}

func (r *room) takeBytes(n int64) bool {
	if r.held.Add(n) > r.size {
		r.held.Add(-n)
		return false
	}
	return true
}

// bound makes the bodies of requests to next take room as they are read. It frees the room when next returns.
func (r *room) bound(next http.Handler, readTimeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if readTimeout == 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(r.bodyTime)) // every server of net/http can
		}
		b := &body{source: req.Body, from: req.Body, room: r, header: w.Header()}
		defer func() { r.held.Add(-b.held) }()
		if unpacks(req) {
			req.Header.Del("Content-Encoding")
			b.packed = true
		}
		req.Body, req.ContentLength = b, -1
		next.ServeHTTP(w, req)
	})
}

// unpacks reports whether bound decompresses a request of the push API itself, to count its bytes as they appear. gRPC
// compresses single messages instead; a gRPC request with compressed messages is refused.
func unpacks(req *http.Request) bool {
	return req.URL.Path != ingestPath && req.Header.Get("Content-Encoding") == "gzip" &&
		!strings.HasPrefix(req.Header.Get("Content-Type"), "application/grpc")
}

// body is the body of a request, decompressed.
type body struct {
	source io.ReadCloser // the body as sent
	from   io.Reader     // the reader for Read: source, or a decompressor of it
	packed bool          // from has not been created yet
	room   *room
	header http.Header // of the answer
	held   int64
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.packed {
		unpacked, err := gzip.NewReader(b.source)
		if err != nil {
			return 0, err // io.EOF also for an empty body
		}
		b.from, b.packed = unpacked, false
	}
	n, err := b.from.Read(p[:min(len(p), maxRead)])
	switch {
	case b.held+int64(n) > MaxRequest:
		return 0, errTooLong
	case !b.room.takeBytes(int64(n)):
		b.room.refused.Inc()
		b.header.Set("Retry-After", retryAfter)
		return 0, errNoRoom
	}
	b.held += int64(n)
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error { return b.source.Close() }
