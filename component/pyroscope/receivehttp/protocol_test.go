package receivehttp

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grafana/river"
	"github.com/grafana/river/rivertypes"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

// pair returns a certificate for 127.0.0.1 and its key, in PEM.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	of := server.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(of.PrivateKey)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.Certificate[0]})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func TestTLS(t *testing.T) {
	config := local()
	cert, key := pair(t)
	config.TLS = &TLS{Cert: cert, Key: rivertypes.Secret(key), MinVersion: "VersionTLS13"}
	r := &receiver{}
	addr := start(t, r, config).listening(t)

	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(cert)))
	ask := func(version uint16) (*http.Response, error) {
		client := http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MaxVersion: version},
		}}
		defer client.CloseIdleConnections()
		return client.Post("https://"+addr+"/ingest?name=app", "text/x", strings.NewReader("raw"))
	}
	response, err := ask(tls.VersionTLS13)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 200, response.StatusCode)
	require.Equal(t, "HTTP/2.0", response.Proto)
	require.Len(t, r.profiles, 1)
	_, err = ask(tls.VersionTLS12)
	require.ErrorContains(t, err, "protocol version")
}

func TestProtocolArguments(t *testing.T) {
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte(`
forward_to                = []
graceful_shutdown_timeout = "7s"
debug_info_upload_timeout = "1m"

http {
	tls {
		cert_file     = "c"
		key_file      = "k"
		cipher_suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
		min_version   = "VersionTLS12"
	}

	http2 {
		enabled                = true
		max_concurrent_streams = 7
		read_idle_timeout      = "3s"
	}
}

grpc {
	listen_port = 9095
}
`), &args))
	require.Equal(t, 7*time.Second, args.GracefulShutdownTimeout)
	require.Equal(t, []*component.AttributeError{
		component.NoEffect("grpc", ""), component.NoEffect("debug_info_upload_timeout", ""),
	}, args.Warnings())
	server := args.HTTP.TLS.server()
	require.Equal(t, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384},
		server.CipherSuites)
	require.Equal(t, uint16(tls.VersionTLS12), server.MinVersion)
	require.Equal(t, 7, args.HTTP.HTTP2.config().MaxConcurrentStreams)
	require.Equal(t, 3*time.Second, args.HTTP.HTTP2.config().SendPingTimeout)
	require.Equal(t, 4096, args.HTTP.HTTP2.config().MaxDecoderHeaderTableSize)

	for _, test := range [][2]string{
		{"http {\n tls {\n cert_file = \"c\"\n }\n}", "must specify either key_pem or key_file"},
		{"http {\n tls {\n cert_file = \"c\"\n key_file = \"k\"\n min_version = \"TLS12\"\n }\n}", "unknown TLS version"},
		{"http {\n tls {\n cert_file = \"c\"\n key_file = \"k\"\n cipher_suites = \"X\"\n }\n}", `unknown cipher "X"`},
		{"http {\n tls {\n cert_file = \"c\"\n key_file = \"k\"\n client_auth_type = \"X\"\n }\n}",
			"unknown client auth type"},
		{"http {\n tls {\n cert_file = \"c\"\n key_file = \"k\"\n client_ca = \"a\"\nclient_ca_file = \"b\"\n }\n}",
			"cannot specify both client_ca and client_ca_file"},
		{"graceful_shutdown_timeout = \"-1s\"", "must not be negative"},
	} {
		text, want := test[0], test[1]
		require.ErrorContains(t, river.Unmarshal([]byte("forward_to = []\n"+text), &args), want, text)
	}
}
