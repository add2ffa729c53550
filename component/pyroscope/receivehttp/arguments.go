package receivehttp

import (
	"net"
	"strconv"
	"time"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
)

// Arguments configure pyroscope.receive_http.
type Arguments struct {
	HTTP      Server                 `river:"http,block,optional"`
	ForwardTo []pyroscope.Appendable `river:"forward_to,attr"`

	// GracefulShutdownTimeout is how long a stopping server waits for requests in flight.
	GracefulShutdownTimeout time.Duration `river:"graceful_shutdown_timeout,attr,optional"`

	// Accepted without effect: the component receives no profiles over gRPC, and no debug information.
	GRPC                   *GRPC         `river:"grpc,block,optional"`
	DebugInfoUploadTimeout time.Duration `river:"debug_info_upload_timeout,attr,optional"`
}

// GRPC are the gRPC arguments of Alloy's server, which have no effect.
type GRPC struct {
	ListenAddress              string        `river:"listen_address,attr,optional"`
	ListenPort                 int           `river:"listen_port,attr,optional"`
	ConnLimit                  int           `river:"conn_limit,attr,optional"`
	MaxConnectionAge           time.Duration `river:"max_connection_age,attr,optional"`
	MaxConnectionAgeGrace      time.Duration `river:"max_connection_age_grace,attr,optional"`
	MaxConnectionIdle          time.Duration `river:"max_connection_idle,attr,optional"`
	ServerMaxRecvMsg           int           `river:"server_max_recv_msg_size,attr,optional"`
	ServerMaxSendMsg           int           `river:"server_max_send_msg_size,attr,optional"`
	ServerMaxConcurrentStreams uint          `river:"server_max_concurrent_streams,attr,optional"`
	TLS                        *TLS          `river:"tls,block,optional"`
}

// Server configures where the component listens, and the server's limits.
type Server struct {
	ListenAddress      string        `river:"listen_address,attr,optional"` // "": all addresses
	ListenPort         int           `river:"listen_port,attr,optional"`    // 0: the kernel chooses
	ConnLimit          int           `river:"conn_limit,attr,optional"`     // connections at a time; 0: no limit
	ServerReadTimeout  time.Duration `river:"server_read_timeout,attr,optional"`
	ServerWriteTimeout time.Duration `river:"server_write_timeout,attr,optional"`
	ServerIdleTimeout  time.Duration `river:"server_idle_timeout,attr,optional"`
	TLS                *TLS          `river:"tls,block,optional"`
	HTTP2              HTTP2         `river:"http2,block,optional"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{GracefulShutdownTimeout: 30 * time.Second}
	a.HTTP.SetToDefault()
}

// SetToDefault implements river.Defaulter.
func (s *Server) SetToDefault() {
	*s = Server{
		ListenPort: 8080, ConnLimit: 16384,
		ServerReadTimeout: 30 * time.Second, ServerWriteTimeout: 30 * time.Second, ServerIdleTimeout: 2 * time.Minute,
	}
	s.HTTP2.SetToDefault()
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if a.GracefulShutdownTimeout < 0 {
		return component.Refuse("graceful_shutdown_timeout", "must not be negative, got %s", a.GracefulShutdownTimeout)
	}
	return nil
}

// Warnings implements component.Warner.
func (a *Arguments) Warnings() []*component.AttributeError {
	var warnings []*component.AttributeError
	if a.GRPC != nil {
		warnings = append(warnings, component.NoEffect("grpc", ""))
	}
	if a.DebugInfoUploadTimeout != 0 {
		warnings = append(warnings, component.NoEffect("debug_info_upload_timeout", ""))
	}
	return warnings
}

// Validate implements river.Validator.
func (s *Server) Validate() error {
	switch {
	case s.ListenPort < 0 || s.ListenPort > 65535:
		return component.Refuse("listen_port", "must be between 0 and 65535, got %d", s.ListenPort)
	case s.ConnLimit < 0:
		return component.Refuse("conn_limit", "must not be negative, got %d", s.ConnLimit)
	case s.ServerReadTimeout < 0:
		return component.Refuse("server_read_timeout", "must not be negative, got %s", s.ServerReadTimeout)
	case s.ServerWriteTimeout < 0:
		return component.Refuse("server_write_timeout", "must not be negative, got %s", s.ServerWriteTimeout)
	case s.ServerIdleTimeout < 0:
		return component.Refuse("server_idle_timeout", "must not be negative, got %s", s.ServerIdleTimeout)
	}
	return nil
}

func (s *Server) address() string {
	return net.JoinHostPort(s.ListenAddress, strconv.Itoa(s.ListenPort))
}
