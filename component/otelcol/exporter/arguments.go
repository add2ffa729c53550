// Package exporter holds the components otelcol.exporter.otlphttp and otelcol.exporter.otlp: they send the spans of the
// tracing block to an OpenTelemetry collector, over HTTP or gRPC, through the OpenTelemetry SDK's exporters.
package exporter

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/grafana/river/rivertypes"
	promconfig "github.com/prometheus/common/config"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
)

// HTTPArguments are the arguments of otelcol.exporter.otlphttp.
type HTTPArguments struct {
	Client         Client `river:"client,block"`
	TracesEndpoint string `river:"traces_endpoint,attr,optional"` // instead of the client's endpoint with /v1/traces
	Retry          Retry  `river:"retry_on_failure,block,optional"`

	// These are accepted because the Agent and Alloy have them, but have no effect: there are only spans here, and the
	// tracing block queues them.
	MetricsEndpoint string         `river:"metrics_endpoint,attr,optional"`
	LogsEndpoint    string         `river:"logs_endpoint,attr,optional"`
	Encoding        string         `river:"encoding,attr,optional"`
	Queue           queue          `river:"sending_queue,block,optional"`
	DebugMetrics    map[string]any `river:"debug_metrics,block,optional"`
}

// GRPCArguments are the arguments of otelcol.exporter.otlp.
type GRPCArguments struct {
	Client  Client        `river:"client,block"`
	Timeout time.Duration `river:"timeout,attr,optional"`
	Retry   Retry         `river:"retry_on_failure,block,optional"`

	// Accepted without effect, see HTTPArguments.
	Queue        queue          `river:"sending_queue,block,optional"`
	DebugMetrics map[string]any `river:"debug_metrics,block,optional"`
}

// queue is accepted without effect, see HTTPArguments.
type queue struct {
	Enabled         any            `river:"enabled,attr,optional"`
	NumConsumers    any            `river:"num_consumers,attr,optional"`
	QueueSize       any            `river:"queue_size,attr,optional"`
	Sizer           any            `river:"sizer,attr,optional"`
	BlockOnOverflow any            `river:"block_on_overflow,attr,optional"`
	WaitForResult   any            `river:"wait_for_result,attr,optional"`
	Batch           map[string]any `river:"batch,block,optional"`
}

// Client says where to send spans.
type Client struct {
	Endpoint    string            `river:"endpoint,attr,optional"`
	Compression string            `river:"compression,attr,optional"`
	Headers     map[string]string `river:"headers,attr,optional"`
	Timeout     time.Duration     `river:"timeout,attr,optional"`
	ProxyURL    config.URL        `river:"proxy_url,attr,optional"` // only for otlphttp
	TLS         TLS               `river:"tls,block,optional"`

	// These are accepted without effect: the SDK's exporter chooses its own values.
	ReadBufferSize      any            `river:"read_buffer_size,attr,optional"`
	WriteBufferSize     any            `river:"write_buffer_size,attr,optional"`
	MaxIdleConns        *int           `river:"max_idle_conns,attr,optional"`
	MaxIdleConnsPerHost *int           `river:"max_idle_conns_per_host,attr,optional"`
	MaxConnsPerHost     *int           `river:"max_conns_per_host,attr,optional"`
	IdleConnTimeout     *time.Duration `river:"idle_conn_timeout,attr,optional"`
	DisableKeepAlives   bool           `river:"disable_keep_alives,attr,optional"`
	ForceAttemptHTTP2   *bool          `river:"force_attempt_http2,attr,optional"`
	HTTP2PingTimeout    *time.Duration `river:"http2_ping_timeout,attr,optional"`
	HTTP2ReadIdle       *time.Duration `river:"http2_read_idle_timeout,attr,optional"`
	CompressionParams   map[string]any `river:"compression_params,block,optional"`
	Cookies             map[string]any `river:"cookies,block,optional"`
	WaitForReady        bool           `river:"wait_for_ready,attr,optional"`
	BalancerName        string         `river:"balancer_name,attr,optional"`
	Authority           string         `river:"authority,attr,optional"`
	Keepalive           map[string]any `river:"keepalive,block,optional"`
}

// TLS says how to verify the collector, and which certificate to present.
type TLS struct {
	Insecure           bool              `river:"insecure,attr,optional"` // gRPC without TLS; HTTP follows the URL
	InsecureSkipVerify bool              `river:"insecure_skip_verify,attr,optional"`
	ServerName         string            `river:"server_name,attr,optional"`
	CA                 string            `river:"ca_pem,attr,optional"`
	CAFile             string            `river:"ca_file,attr,optional"`
	Cert               string            `river:"cert_pem,attr,optional"`
	CertFile           string            `river:"cert_file,attr,optional"`
	Key                rivertypes.Secret `river:"key_pem,attr,optional"`
	KeyFile            string            `river:"key_file,attr,optional"`
	MinVersion         tlsVersion        `river:"min_version,attr,optional"` // 1.0 to 1.3
	MaxVersion         tlsVersion        `river:"max_version,attr,optional"`
	CipherSuites       []string          `river:"cipher_suites,attr,optional"`
	SystemCAs          bool              `river:"include_system_ca_certs_pool,attr,optional"` // besides ca_pem

	// These are accepted without effect: changed files are always read again, and crypto/tls makes the other two
	// choices itself.
	ReloadInterval              time.Duration `river:"reload_interval,attr,optional"`
	CurvePreferences            []string      `river:"curve_preferences,attr,optional"`
	IncludeInsecureCipherSuites bool          `river:"include_insecure_cipher_suites,attr,optional"`
}

// Retry says how long to retry while a collector is busy or unreachable.
type Retry struct {
	Enabled         bool          `river:"enabled,attr,optional"`
	InitialInterval time.Duration `river:"initial_interval,attr,optional"`
	MaxInterval     time.Duration `river:"max_interval,attr,optional"`
	MaxElapsedTime  time.Duration `river:"max_elapsed_time,attr,optional"`

	// These are accepted without effect: the SDK has its own values.
	RandomizationFactor float64 `river:"randomization_factor,attr,optional"`
	Multiplier          float64 `river:"multiplier,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (r *Retry) SetToDefault() {
	*r = Retry{Enabled: true, InitialInterval: 5 * time.Second, MaxInterval: 30 * time.Second,
		MaxElapsedTime: 5 * time.Minute}
}

// SetToDefault implements river.Defaulter.
func (a *HTTPArguments) SetToDefault() {
	*a = HTTPArguments{}
	a.Retry.SetToDefault()
}

// SetToDefault implements river.Defaulter.
func (a *GRPCArguments) SetToDefault() {
	*a = GRPCArguments{Timeout: 5 * time.Second}
	a.Retry.SetToDefault()
}

// SetToDefault implements river.Defaulter.
func (c *Client) SetToDefault() { *c = Client{Compression: "gzip", Timeout: 30 * time.Second} }

// Validate implements river.Validator.
func (a *HTTPArguments) Validate() error {
	if a.Client.Endpoint == "" && a.TracesEndpoint == "" && a.MetricsEndpoint == "" && a.LogsEndpoint == "" {
		return errors.New("at least one endpoint must be specified")
	}
	attribute, text := "client.endpoint", a.Client.Endpoint
	if a.TracesEndpoint != "" {
		attribute, text = "traces_endpoint", a.TracesEndpoint
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return component.Refuse(attribute, "must be a URL that starts with http:// or https://")
	}
	if a.Encoding == "json" {
		return component.Refuse("encoding", "must be proto; the SDK does not encode spans as JSON")
	}
	return a.Client.check()
}

// Validate implements river.Validator.
func (a *GRPCArguments) Validate() error {
	if a.Client.Endpoint == "" {
		return component.Refuse("client.endpoint", "must be the host and port of a collector")
	}
	return a.Client.check()
}

func (c *Client) check() error {
	switch c.Compression {
	case "gzip", "none", "":
	default:
		return component.Refuse("client.compression", "must be gzip or none, got %q: the SDK has no other", c.Compression)
	}
	if c.Timeout <= 0 {
		return component.Refuse("client.timeout", "must be longer than 0s")
	}
	return nil
}

// endpointURL returns the URL for spans sent over HTTP.
func (a *HTTPArguments) endpointURL() string {
	if a.TracesEndpoint != "" {
		return a.TracesEndpoint
	}
	return strings.TrimSuffix(a.Client.Endpoint, "/") + "/v1/traces"
}

func (t *TLS) config() (*tls.Config, error) {
	c, err := promconfig.NewTLSConfig(&promconfig.TLSConfig{
		CA: t.CA, CAFile: t.CAFile, Cert: t.Cert, CertFile: t.CertFile, Key: promconfig.Secret(t.Key), KeyFile: t.KeyFile,
		ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify,
	})
	if err != nil {
		return nil, err
	}
	c.MinVersion, c.MaxVersion = tlsVersions[t.MinVersion], tlsVersions[t.MaxVersion]
	for _, name := range t.CipherSuites {
		id := config.CipherSuite(name)
		if id == 0 {
			return nil, fmt.Errorf("unknown cipher %q", name)
		}
		c.CipherSuites = append(c.CipherSuites, id)
	}
	if t.SystemCAs && (t.CA != "" || t.CAFile != "") {
		if c.RootCAs, err = t.allCAs(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// allCAs returns the system's CAs and the configured CA.
func (t *TLS) allCAs() (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	text := []byte(t.CA)
	if t.CAFile != "" {
		if text, err = os.ReadFile(t.CAFile); err != nil {
			return nil, err
		}
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("ca_pem or ca_file holds no certificate")
	}
	return pool, nil
}

type tlsVersion string

var tlsVersions = map[tlsVersion]uint16{"": 0, "1.0": tls.VersionTLS10, "1.1": tls.VersionTLS11,
	"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// MarshalText implements encoding.TextMarshaler.
func (v tlsVersion) MarshalText() ([]byte, error) { return []byte(v), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *tlsVersion) UnmarshalText(text []byte) error {
	*v = tlsVersion(text)
	if _, known := tlsVersions[*v]; !known {
		return fmt.Errorf("unknown TLS version %q, expected 1.0 to 1.3", text)
	}
	return nil
}
