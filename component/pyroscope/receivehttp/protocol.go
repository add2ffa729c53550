package receivehttp

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/grafana/river/rivertypes"

	"github.com/headwater/headwater/component/common/config"
)

// TLS makes the server use TLS.
type TLS struct {
	Cert         string            `river:"cert_pem,attr,optional"`
	CertFile     string            `river:"cert_file,attr,optional"`
	Key          rivertypes.Secret `river:"key_pem,attr,optional"`
	KeyFile      string            `river:"key_file,attr,optional"`
	ClientAuth   config.ClientAuth `river:"client_auth_type,attr,optional"`
	ClientCA     string            `river:"client_ca,attr,optional"`
	ClientCAFile string            `river:"client_ca_file,attr,optional"`
	CipherSuites cipherSuites      `river:"cipher_suites,attr,optional"` // names, separated by commas
	MinVersion   tlsVersion        `river:"min_version,attr,optional"`   // for example VersionTLS12
}

// Validate implements river.Validator.
func (t *TLS) Validate() error { return t.server().Validate("client_ca") }

func (t *TLS) server() *config.ServerTLS {
	return &config.ServerTLS{
		Cert: t.Cert, CertFile: t.CertFile,
		Key: string(t.Key), KeyFile: t.KeyFile,
		ClientCA: t.ClientCA, ClientCAFile: t.ClientCAFile,
		ClientAuth: t.ClientAuth.Type(), CipherSuites: t.CipherSuites.ids(), MinVersion: tlsVersions[t.MinVersion],
	}
}

type tlsVersion string

var tlsVersions = map[tlsVersion]uint16{
	"":             0,
	"VersionTLS10": tls.VersionTLS10,
	"VersionTLS11": tls.VersionTLS11,
	"VersionTLS12": tls.VersionTLS12,
	"VersionTLS13": tls.VersionTLS13,
}

// MarshalText implements encoding.TextMarshaler.
func (v tlsVersion) MarshalText() ([]byte, error) { return []byte(v), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *tlsVersion) UnmarshalText(text []byte) error {
	*v = tlsVersion(text)
	if _, known := tlsVersions[*v]; !known {
		return fmt.Errorf("unknown TLS version %q, expected VersionTLS10 to VersionTLS13", text)
	}
	return nil
}

type cipherSuites string

func (c cipherSuites) ids() []uint16 {
	if c == "" {
		return nil
	}
	var ids []uint16
	for name := range strings.SplitSeq(string(c), ",") {
		ids = append(ids, config.CipherSuite(strings.TrimSpace(name)))
	}
	return ids
}

// MarshalText implements encoding.TextMarshaler.
func (c cipherSuites) MarshalText() ([]byte, error) { return []byte(c), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *cipherSuites) UnmarshalText(text []byte) error {
	*c = cipherSuites(text)
	for i, id := range c.ids() {
		if id == 0 {
			return fmt.Errorf("unknown cipher %q", strings.Split(string(text), ",")[i])
		}
	}
	return nil
}

// HTTP2 are the settings of HTTP/2, which is always enabled; without TLS, for clients that start with it. Zero means
// net/http's default.
type HTTP2 struct {
	Enabled                      bool `river:"enabled,attr,optional"`      // has no effect
	MaxHandlers                  int  `river:"max_handlers,attr,optional"` // has no effect, also not in Alloy
	MaxConcurrentStreams         int  `river:"max_concurrent_streams,attr,optional"`
	MaxDecoderHeaderTableSize    int  `river:"max_decoder_header_table_size,attr,optional"`
	MaxEncoderHeaderTableSize    int  `river:"max_encoder_header_table_size,attr,optional"`
	MaxReadFrameSize             int  `river:"max_read_frame_size,attr,optional"`
	PermitProhibitedCipherSuites bool `river:"permit_prohibited_ciphers,attr,optional"`
	// has no effect: server_idle_timeout is used
	IdleTimeout                  time.Duration `river:"idle_timeout,attr,optional"`
	ReadIdleTimeout              time.Duration `river:"read_idle_timeout,attr,optional"`
	PingTimeout                  time.Duration `river:"ping_timeout,attr,optional"`
	WriteByteTimeout             time.Duration `river:"write_byte_timeout,attr,optional"`
	MaxUploadBufferPerConnection int           `river:"max_upload_buffer_per_connection,attr,optional"`
	MaxUploadBufferPerStream     int           `river:"max_upload_buffer_per_stream,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (h *HTTP2) SetToDefault() {
	*h = HTTP2{
		MaxConcurrentStreams: 100, MaxDecoderHeaderTableSize: 4096, MaxEncoderHeaderTableSize: 4096,
		PingTimeout: 15 * time.Second,
	}
}

func (h *HTTP2) config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          h.MaxConcurrentStreams,
		MaxDecoderHeaderTableSize:     h.MaxDecoderHeaderTableSize,
		MaxEncoderHeaderTableSize:     h.MaxEncoderHeaderTableSize,
		MaxReadFrameSize:              h.MaxReadFrameSize,
		PermitProhibitedCipherSuites:  h.PermitProhibitedCipherSuites,
		SendPingTimeout:               h.ReadIdleTimeout,
		PingTimeout:                   h.PingTimeout,
		WriteByteTimeout:              h.WriteByteTimeout,
		MaxReceiveBufferPerConnection: h.MaxUploadBufferPerConnection,
		MaxReceiveBufferPerStream:     h.MaxUploadBufferPerStream,
	}
}
