package rig

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

// The range of ports that Linux does not assign to connections. [FreePort] starts at a random port in it, since other
// processes use it in the same way, and continues from there.
const firstPort, ports = 10_000, 22_000

var portsGiven atomic.Int64

func init() { portsGiven.Store(rand.Int64N(ports)) }

// FreePort returns a TCP port of loopback without a listener, which the kernel assigns to no connection in the
// meantime. It does not listen on the port to find out: a child process that is forked at that moment would keep the
// port for a while.
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

// Serve serves HTTP until the test ends, and returns the address.
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
