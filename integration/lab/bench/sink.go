package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// sink receives the profiles of the profilers, by Pyroscope's push protocol or by OTLP. It answers, and keeps the
// profiles until they are taken.
type sink struct {
	addr   string
	server *http.Server

	mu       sync.Mutex
	received []message
}

// message is the body of a request. It is decoded only after the measurement of the profiler.
type message struct {
	body []byte
	otlp bool
	gzip bool
}

// startSink listens on a free port of loopback.
func startSink() (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{addr: listener.Addr().String()}
	s.server = &http.Server{Handler: s, Protocols: new(http.Protocols)}
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetUnencryptedHTTP2(true)
	go s.server.Serve(listener)
	return s, nil
}

func (s *sink) close() { s.server.Close() }

// ServeHTTP implements http.Handler. It answers with an empty message: for gRPC in a frame of a flag and a 4-byte
// length, with the status as a trailer; for Connect with an empty body.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m := message{body: body, otlp: strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")}
	m.gzip = r.Header.Get("Content-Encoding") == "gzip" || m.otlp && len(body) > 0 && body[0] == 1
	s.mu.Lock()
	s.received = append(s.received, m)
	s.mu.Unlock()
	if !m.otlp {
		w.Header().Set("Content-Type", "application/proto")
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	w.Write(make([]byte, grpcHeader))
	w.Header().Set("Grpc-Status", "0")
}

// takeMessages returns the messages received since the last call.
func (s *sink) takeMessages() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	received := s.received
	s.received = nil
	return received
}

// stacks returns the stacks in the messages received since the last call.
func (s *sink) stacks() ([]stack, error) {
	var all []stack
	for _, m := range s.takeMessages() {
		stacks, err := m.stacks()
		if err != nil {
			return nil, err
		}
		all = append(all, stacks...)
	}
	return all, nil
}

// grpcHeader precedes a message in gRPC: one byte of flags, four of length.
const grpcHeader = 5

func (m message) stacks() ([]stack, error) {
	content, err := m.content()
	if err != nil {
		return nil, err
	}
	if m.otlp {
		return parseOTLP(content)
	}
	return parsePush(content)
}

// content returns the message that the body holds.
func (m message) content() ([]byte, error) {
	body := m.body
	if m.otlp {
		if len(body) < grpcHeader || int(binary.BigEndian.Uint32(body[1:])) != len(body)-grpcHeader {
			return nil, fmt.Errorf("gRPC: not one message in %d bytes", len(body))
		}
		body = body[grpcHeader:]
	}
	if !m.gzip {
		return body, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}
