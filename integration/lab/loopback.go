package lab

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Ports that Linux does not give to connections, and those of them that [FreePort] has returned in this process: the
// first one by chance, as other processes do the same, and the others after it.
const firstPort, ports = 10_000, 22_000

var portsGiven atomic.Int64

func init() { portsGiven.Store(rand.Int64N(ports)) }

// FreePort returns a TCP port of loopback that nobody listens on, and that no connection gets meanwhile. It does not
// listen itself to find out: a child that is forked at that moment would keep the port for a while.
func FreePort(t testing.TB) string {
	t.Helper()
	for range ports {
		port := strconv.FormatInt(firstPort+portsGiven.Add(1)%ports, 10)
		connection, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err == nil {
			connection.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			return port
		}
	}
	t.Fatal("no port of loopback is free")
	return ""
}

// Serve answers on a listener until the test ends, and returns its address.
func Serve(t testing.TB, network, address string, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// ReadResponse returns status and body of an answer, and closes it.
func ReadResponse(t testing.TB, response *http.Response) (int, string) {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read %s: %v", response.Request.URL, err)
	}
	return response.StatusCode, string(body)
}
