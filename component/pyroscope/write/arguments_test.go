package write

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"github.com/grafana/river"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
)

func TestRegistration(t *testing.T) {
	_, err := component.NewRegistry(Registration())
	require.NoError(t, err)
	require.Equal(t, "pyroscope.write", Registration().Name)
}

func TestDefaults(t *testing.T) {
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte(`endpoint { url = "http://localhost:4040" }`), &args))
	want := &EndpointOptions{
		URL:               "http://localhost:4040",
		RemoteTimeout:     10 * time.Second,
		MinBackoff:        500 * time.Millisecond,
		MaxBackoff:        5 * time.Minute,
		MaxBackoffRetries: 10,
		RetryOnHTTP429:    true,
		HTTPClient:        config.HTTPClientConfig{FollowRedirects: true, EnableHTTP2: true},
	}
	require.Equal(t, []*EndpointOptions{want}, args.Endpoints)
}

func TestEverythingDecodes(t *testing.T) {
	const config = `
		external_labels = {"env" = "prod", "a.b" = "c"}
		queue {
			max_size       = "2MiB"
			max_age        = "30m"
			max_in_flight  = 4
			fsync          = "always"
			fsync_interval = "2s"
		}
		tracing {
			jaeger_propagator = false
		}
		endpoint {
			url                       = "https://pyroscope.example/base/"
			name                      = "n"
			remote_timeout            = "3s"
			headers                   = {"X-Scope-OrgID" = "t"}
			http_headers              = {"X-More" = ["a", "b"]}
			min_backoff_period        = "1s"
			max_backoff_period        = "2s"
			max_backoff_retries       = 0
			retry_on_http_429         = false
			debug_info_upload_timeout = "2m"
			proxy_url                 = "http://user:pass@proxy:3128"
			no_proxy                  = "10.0.0.0/8"
			proxy_connect_header      = {"X-Proxy" = ["x"]}
			follow_redirects          = false
			enable_http2              = false
			basic_auth {
				username      = "u"
				password_file = "/p"
			}
			tls_config {
				server_name          = "s"
				insecure_skip_verify = true
				min_version          = "TLS12"
			}
		}
		endpoint {
			url = "http://a"
			authorization {
				type        = "Token"
				credentials = "c"
			}
		}
		endpoint {
			url = "http://b"
			oauth2 {
				client_id       = "i"
				client_secret   = "s"
				scopes          = ["x"]
				token_url       = "http://token"
				endpoint_params = {"p" = "q"}
				tls_config {
					ca_file = "/ca"
				}
			}
		}
		endpoint {
			url               = "http://c"
			bearer_token_file = "/t"
		}`
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte(config), &args))
	require.Equal(t,
		[]*component.AttributeError{component.NoEffect("endpoint.debug_info_upload_timeout", "")}, args.Warnings())

	require.Equal(t,
		&QueueOptions{MaxBytes: 2 << 20, MaxAge: 30 * time.Minute, MaxInFlight: 4, Fsync: "always",
			FsyncInterval: 2 * time.Second}, args.Queue)

	require.Equal(t, Tracing{TraceContextPropagator: true}, args.Tracing)

	first := args.Endpoints[0].HTTPClient.Convert()
	require.NoError(t, first.Validate())
	require.Equal(t, "u", first.BasicAuth.Username)
	require.Equal(t, "/p", first.BasicAuth.PasswordFile)
	require.Equal(t, "http://user:pass@proxy:3128", first.ProxyURL.String())
	require.Equal(t, "10.0.0.0/8", first.NoProxy)
	require.Equal(t, http.Header{"X-Proxy": {"x"}}, first.GetProxyConnectHeader())
	require.Len(t, first.HTTPHeaders.Headers["X-More"].Secrets, 2)
	require.Equal(t, "s", first.TLSConfig.ServerName)
	require.Equal(t, "TLS12", first.TLSConfig.MinVersion.String())
	require.False(t, first.FollowRedirects || first.EnableHTTP2)
	second := args.Endpoints[1].HTTPClient.Convert()
	require.Equal(t, "Token", second.Authorization.Type)
	third := args.Endpoints[2].HTTPClient.Convert()
	require.Equal(t, map[string]string{"p": "q"}, third.OAuth2.EndpointParams)
	require.Equal(t, "/ca", third.OAuth2.TLSConfig.CAFile)
}

// TestUnusableURL: Alloy runs a configuration with such a URL, so it is not refused. The endpoint is unhealthy, and
// counts the profiles that it drops.
func TestUnusableURL(t *testing.T) {
	for raw, want := range map[string]string{
		"localhost:4040":    `must be absolute and start with http:// or https://, got "localhost:4040"`,
		"":                  `must be absolute and start with http:// or https://, got ""`,
		"ftp://u:secret@h":  `must be absolute and start with http:// or https://, got "ftp://u:xxxxx@h"`,
		"http://":           "names no host",
		"http://h:x/":       `is not a valid URL: invalid port ":x" after host`,
		"http://h?a=b":      "must have neither query nor fragment, since the path of the push API is appended",
		"http://u:secret@[": "is not a valid URL: missing ']' in host",
	} {
		var args Arguments
		require.NoError(t, river.Unmarshal([]byte(fmt.Sprintf("endpoint {\n url = %q\n}", raw)), &args))
		require.Equal(t, []*component.AttributeError{{Attribute: "endpoint.url", Message: want}}, args.Warnings())
		r := newRig(t, args, testTuning()).run()
		health := r.CurrentHealth()
		require.Equal(t, component.HealthTypeUnhealthy, health.Health)
		require.Contains(t, health.Message, "url "+want)
		r.append("x")
		r.eventually("pyroscope_write_dropped_profiles_total", 1)
		r.stop()
		require.Contains(t, r.log.String(), "argument endpoint.url")
		require.NotContains(t, r.log.String(), "secret")
	}
}

func TestInvalidArguments(t *testing.T) {
	endpoint := func(lines string) string {
		return "endpoint {\n url = \"http://localhost\"\n" + lines + "\n}"
	}
	tests := [][2]string{
		{`endpoint { }`, `missing required attribute "url"`},
		{`external_labels = {"a-b" = "c"}`,
			`external_labels cannot be used: invalid label name "a-b": only letters, digits, _ and . are allowed`},
		{`receiver = 1`, `unrecognized attribute name "receiver"`},
		{endpoint(`remote_timeout = "0s"`), `endpoint.remote_timeout must be longer than 0s, got 0s`},
		{endpoint(`min_backoff_period = "-1s"`), `endpoint.min_backoff_period must not be negative, got -1s`},
		{endpoint(`max_backoff_period = "-1s"`), `endpoint.max_backoff_period must not be negative, got -1s`},
		{endpoint(`max_backoff_retries = -1`), `endpoint.max_backoff_retries must not be negative, got -1`},
		{endpoint(`headers = {"a b" = "c"}`), `endpoint.headers has "a b", which is not the name of an HTTP header`},
		{endpoint(`headers = {"a" = "secret\n"}`),
			`endpoint.headers has a value for "a" that is not valid in an HTTP header`},
		{endpoint(`http_headers = {"a b" = ["c"]}`),
			`endpoint.http_headers has "a b", which is not the name of an HTTP header`},
		{endpoint(`no_proxy = "h"`), `if no_proxy is configured, proxy_url must also be configured`},
		{endpoint(`proxy_connect_header = {"a" = []}`),
			`if proxy_connect_header is configured, proxy_url or proxy_from_environment must also be configured`},
		{endpoint("proxy_from_environment = true\nproxy_url = \"http://h\""),
			`if proxy_from_environment is configured, proxy_url must not be configured`},
		{endpoint("proxy_from_environment = true\nno_proxy = \"h\""),
			`if proxy_from_environment is configured, no_proxy must not be configured`},
		{endpoint("bearer_token = \"t\"\nbearer_token_file = \"f\""),
			`at most one of basic_auth, authorization, oauth2, bearer_token & bearer_token_file must be configured`},
		{endpoint("bearer_token = \"t\"\nbasic_auth { }"),
			`at most one of basic_auth, authorization, oauth2, bearer_token & bearer_token_file must be configured`},
		{endpoint("basic_auth {\npassword = \"a\"\npassword_file = \"b\"\n}"),
			`at most one of basic_auth password & password_file must be configured`},
		{endpoint(`authorization { type = "Basic" }`),
			`authorization type cannot be set to "basic", use "basic_auth" block instead`},
		{endpoint("authorization {\ncredentials = \"a\"\ncredentials_file = \"b\"\n}"),
			`at most one of authorization credentials & credentials_file must be configured`},
		{endpoint(`oauth2 { }`), `oauth2 client_id must be configured`},
		{endpoint(`oauth2 { client_id = "a" }`), `either oauth2 client_secret or client_secret_file must be configured`},
		{endpoint("oauth2 {\nclient_id = \"a\"\nclient_secret = \"b\"\n}"), `oauth2 token_url must be configured`},
		{endpoint("oauth2 {\nclient_id = \"a\"\nclient_secret = \"b\"\nclient_secret_file = \"c\"\n}"),
			`at most one of oauth2 client_secret & client_secret_file must be configured`},
		{endpoint("tls_config {\nca_pem = \"a\"\nca_file = \"b\"\n}"),
			`at most one of ca_pem and ca_file must be configured`},
		{endpoint("tls_config {\ncert_pem = \"a\"\ncert_file = \"b\"\n}"),
			`at most one of cert_pem and cert_file must be configured`},
		{endpoint("tls_config {\nkey_pem = \"a\"\nkey_file = \"b\"\n}"),
			`at most one of key_pem and key_file must be configured`},
		{endpoint(`tls_config { cert_pem = "a" }`),
			`exactly one of key_pem or key_file must be configured when a client certificate is configured`},
		{endpoint(`tls_config { key_pem = "a" }`),
			`exactly one of cert_pem or cert_file must be configured when a client key is configured`},
		{endpoint(`tls_config { min_version = "SSL3" }`), `unknown TLS version: SSL3`},
	}
	for lines, want := range map[string]string{
		`max_size = "1KiB"`:     `queue.max_size must be at least 1MiB, got 1KiB`,
		`max_size = "much"`:     `units: invalid much`,
		`max_age = "0s"`:        `queue.max_age must be longer than 0s, got 0s`,
		`max_in_flight = 0`:     `queue.max_in_flight must be from 1 to 16, got 0`,
		`fsync = "sometimes"`:   `queue.fsync must be "interval", "always" or "never", got "sometimes"`,
		`fsync_interval = "0s"`: `queue.fsync_interval must be longer than 0s, got 0s`,
	} {
		tests = append(tests, [2]string{"queue {\n" + lines + "\n}", want})
	}
	for _, test := range append(tests, [2]string{
		endpoint("") + "\n" + endpoint(`max_backoff_retries = -1`),
		"endpoint 2 of 2: max_backoff_retries must not be negative, got -1",
	}) {
		config, want := test[0], test[1]
		var args Arguments
		require.ErrorContains(t, river.Unmarshal([]byte(config), &args), want, config)
	}
}

// The HTTP client does what its arguments say, on the wire.
func TestHTTPClient(t *testing.T) {
	s := newServer(t)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("from-file\n"), 0o600))
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"access_token": "granted", "token_type": "Bearer", "expires_in": 3600}`))
	}))
	defer tokens.Close()
	tests := map[string]struct {
		change func(c *config.HTTPClientConfig)
		header string
		want   string
	}{
		"basic auth": {func(c *config.HTTPClientConfig) { c.BasicAuth = &config.BasicAuth{Username: "u", Password: "p"} },
			"Authorization", "Basic dTpw"},
		"authorization": {func(c *config.HTTPClientConfig) {
			c.Authorization = &config.Authorization{Type: "Token", Credentials: "c"}
		}, "Authorization", "Token c"},
		"default scheme": {func(c *config.HTTPClientConfig) { c.Authorization = &config.Authorization{Credentials: "c"} },
			"Authorization", "Bearer c"},
		"token": {func(c *config.HTTPClientConfig) { c.BearerToken = "t" }, "Authorization", "Bearer t"},
		"token file": {func(c *config.HTTPClientConfig) { c.BearerTokenFile = token }, "Authorization",
			"Bearer from-file"},
		"oauth2": {func(c *config.HTTPClientConfig) {
			c.OAuth2 = &config.OAuth2{ClientID: "i", ClientSecret: "s", TokenURL: tokens.URL}
		}, "Authorization", "Bearer granted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args := argumentsTo(s.URL)
			test.change(&args.Endpoints[0].HTTPClient)
			newRig(t, args, testTuning()).run().append("x")
			require.Equal(t, test.want, s.receive(t).header.Get(test.header))
		})
	}
}

func TestTLS(t *testing.T) {
	s := newServer(t)
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(s))
	secure := httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = stdlog.New(io.Discard, "", 0) // refused handshakes are wanted here
	secure.StartTLS()
	defer secure.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})

	args := argumentsTo(secure.URL)
	args.Endpoints[0].HTTPClient.TLS.CA = string(ca)
	newRig(t, args, testTuning()).run().append("trusted")
	require.Equal(t, "trusted", s.receive(t).profile)

	args = argumentsTo(secure.URL)
	args.Endpoints[0].MaxBackoffRetries = 1
	r := newRig(t, args, testTuning()).run()
	r.append("not trusted")
	r.eventually("pyroscope_write_dropped_profiles_total", 1)
	require.Contains(t, r.log.String(), "certificate")
}

func TestProxy(t *testing.T) {
	s := newServer(t)
	var asked *url.URL
	s.wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		asked = r.URL
		r.URL.Host, r.URL.Scheme = "", ""
		next.ServeHTTP(w, r)
	})
	args := argumentsTo("http://pyroscope.invalid:4040")
	proxy, err := url.Parse(s.URL)
	require.NoError(t, err)
	args.Endpoints[0].HTTPClient.Proxy.ProxyURL.URL = proxy
	newRig(t, args, testTuning()).run().append("x")
	s.receive(t)
	require.Equal(t, "/push.v1.PusherService/Push", asked.Path)
}

// enable_http2 decides which protocol TLS agrees on.
func TestHTTP2(t *testing.T) {
	s := newServer(t)
	protocols := make(chan string, 10)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.Proto
		s.Config.Handler.ServeHTTP(w, r)
	}))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	for enabled, want := range map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"} {
		args := argumentsTo(secure.URL)
		args.Endpoints[0].HTTPClient.TLS.InsecureSkipVerify = true
		args.Endpoints[0].HTTPClient.EnableHTTP2 = enabled
		r := newRig(t, args, testTuning()).run()
		r.append("x")
		require.Equal(t, "x", s.receive(t).profile)
		require.Equal(t, want, <-protocols)
		require.NoError(t, r.receiver.Appender().AppendIngest(context.Background(), incoming(t, "/ingest", "y")))
		require.Equal(t, "y", s.receive(t).profile)
		require.Equal(t, want, <-protocols)
	}
}
