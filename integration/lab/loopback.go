package lab

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// FreePort returns a TCP port of loopback that nobody listens on.
func FreePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
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
