package write

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

// breakdown is how long the proxy of TestReset resets connections. The target "reset"
// of the Makefile makes it a minute.
func breakdown(t *testing.T) time.Duration {
	text := os.Getenv("HEADWATER_RESET")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "HEADWATER_RESET")
	return d
}

// A proxy that is being restarted resets connections. A reset does not depend on the profiles, so none is lost, in
// memory or on disk.
func TestReset(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*net.TCPConn){
		"when it accepts":         func(*net.TCPConn) {},
		"in the middle of a push": func(c *net.TCPConn) { io.ReadFull(c, make([]byte, 1000)) },
		"before the answer":       func(c *net.TCPConn) { readRequest(c) },
		"in the answer's head": func(c *net.TCPConn) {
			readRequest(c)
			io.WriteString(c,
				"HTTP/1.1 200 OK\r\nContent-Ty")
		},
		"in the answer":           func(c *net.TCPConn) { readRequest(c); io.WriteString(c, halfAnswer) },
		"in the answer, politely": func(c *net.TCPConn) { readRequest(c); io.WriteString(c, halfAnswer); c.SetLinger(-1) },
	}
	for way, until := range ways {
		for name, arguments := range map[string]func(...string) Arguments{"memory": argumentsTo, "disk": queued} {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				s := newServer(t)
				p := newBrokenProxy(t, s.URL, until)
				args := arguments(p.url())
				args.Endpoints[0].SetToDefault()
				args.Endpoints[0].URL = p.url()
				args.Endpoints[0].RemoteTimeout = time.Minute // an answer that is late makes a profile arrive twice
				r := newQueueRig(t, t.TempDir(), args, testTuning()).run()
				r.receiver = r.Component.receiver

				var sent []string
				for end := time.Now().Add(breakdown(t)); time.Now().Before(end) || p.resets.Load() < 2; {
					time.Sleep(50 * time.Millisecond)
					text := fmt.Sprint(len(sent), strings.Repeat(" ", 20_000))
					r.append(text)
					sent = append(sent, text)
				}
				p.mended.Store(true)
				got := s.receiveAll(t, len(sent))
				slices.Sort(got)
				slices.Sort(sent)
				require.Equal(t, sent, got, "each once")
				r.eventually("pyroscope_write_sent_profiles_total", float64(len(sent)))
				require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"), r.log.String())
				require.Equal(t, component.HealthTypeHealthy, r.CurrentHealth().Health)
			})
		}
	}
}

const halfAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 100\r\n\r\nabc"

// readRequest reads all that a client has to say.
func readRequest(c *net.TCPConn) {
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		io.Copy(io.Discard, r.Body)
	}
}

// brokenProxy resets each connection until it is mended; then it passes them on.
type brokenProxy struct {
	listener *net.TCPListener
	to       string
	until    func(*net.TCPConn) // actions before the reset
	resets   atomic.Int64
	mended   atomic.Bool
}

func newBrokenProxy(t *testing.T, to string, until func(*net.TCPConn)) *brokenProxy {
	u, err := url.Parse(to)
	require.NoError(t, err)
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	p := &brokenProxy{listener: listener, to: u.Host, until: until}
	go func() {
		for {
			c, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *brokenProxy) url() string { return "http://" + p.listener.Addr().String() }

func (p *brokenProxy) serve(c *net.TCPConn) {
	defer c.Close()
	if !p.mended.Load() {
		c.SetLinger(0) // close sends a reset
		p.until(c)
		p.resets.Add(1)
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	go io.Copy(server, c)
	io.Copy(c, server)
}
