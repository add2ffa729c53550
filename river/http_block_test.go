package river

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{t: t, key: key, cert: cert, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a certificate for 127.0.0.1 and its key.
func (a *authority) issue(name string) (cert, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	require.NoError(a.t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// serves serves the runtime's handler on its own listener.
func (h *host) serves() (addr string) {
	h.t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(h.t, err)
	server := &http.Server{Handler: h.Handler(HTTPOptions{Gatherer: prometheus.NewRegistry()}),
		ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(h.Listener(inner)) // ends with ErrServerClosed
	}()
	h.t.Cleanup(func() { _ = server.Close(); <-done })
	return inner.Addr().String()
}

// fetch makes one request on its own connection. It returns the response's status and protocol, and
// the name in the server's certificate.
func fetch(url string, config *tls.Config) (status int, proto, name string, err error) {
	client := &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	response, err := client.Get(url)
	if err != nil {
		return 0, "", "", err
	}
	defer response.Body.Close()
	if response.TLS != nil {
		name = response.TLS.PeerCertificates[0].Subject.CommonName
	}
	return response.StatusCode, response.Proto, name, nil
}

func TestTLS(t *testing.T) {
	h := newHost(t)
	ca := newAuthority(t)
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	cert, key := ca.issue("first")
	certFile, keyFile, caFile := write("cert", cert), write("key", key), write("ca", ca.pem)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	client := &tls.Config{RootCAs: pool}
	addr := h.serves()

	require.NoError(t, h.load(``))
	require.Equal(t, "http", h.Scheme())
	status, _, _, err := fetch("http://"+addr+"/-/ready", client)
	require.NoError(t, err)
	require.Equal(t, 200, status)

	block := fmt.Sprintf("http {\n tls {\n cert_file = %q\n key_file = %q\n min_version = \"TLS13\"\n %%s }\n}",
		certFile, keyFile)
	require.NoError(t, h.load(fmt.Sprintf(block, "")))
	require.Equal(t, "https", h.Scheme())
	status, proto, name, err := fetch("https://"+addr+"/-/ready", client)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, "HTTP/2.0", proto)
	require.Equal(t, "first", name)
	status, _, _, err = fetch("http://"+addr+"/-/ready", client)
	require.True(t, err != nil || status == 400, "plain HTTP is answered with %d", status)
	_, _, _, err = fetch("https://"+addr+"/-/ready", &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12})
	require.ErrorContains(t, err, "protocol version")

	// A renewed certificate is used without a reload, a broken one is not.
	cert, key = ca.issue("second")
	write("cert", cert)
	write("key", key)
	_, _, name, err = fetch("https://"+addr+"/-/ready", client)
	require.NoError(t, err)
	require.Equal(t, "second", name)
	write("cert", []byte("torn"))
	_, _, name, err = fetch("https://"+addr+"/-/ready", client)
	require.NoError(t, err)
	require.Equal(t, "second", name)
	write("cert", cert)

	// A client without a certificate is refused, a client with a certificate is not.
	require.NoError(t,
		h.load(fmt.Sprintf(block,
			fmt.Sprintf("client_ca_file = %q\n client_auth_type = \"RequireAndVerifyClientCert\"\n", caFile))))
	_, _, _, err = fetch("https://"+addr+"/-/ready", client)
	require.Error(t, err)
	pair, err := tls.X509KeyPair(ca.issue("client"))
	require.NoError(t, err)
	status, _, _, err = fetch("https://"+addr+"/-/ready",
		&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	require.Equal(t, 200, status)

	// Invalid settings leave the previous ones in place.
	err = h.load("http {\n tls {\n cert_file = \"nowhere\"\n key_file = \"nowhere\"\n }\n}")
	require.EqualError(t, err,
		"c.river:1:1: Failed to evaluate service: failed to read cert_file: open nowhere: no such file or directory")
	require.Equal(t, "https", h.Scheme())
	require.NoError(t, h.load(``))
	require.Equal(t, "http", h.Scheme())
}

func TestTLSFromText(t *testing.T) {
	h := newHost(t)
	ca := newAuthority(t)
	cert, key := ca.issue("text")
	addr := h.serves()
	require.NoError(t,
		h.load(fmt.Sprintf(
			"http {\n tls {\n cert_pem = `%s`\n key_pem = `%s`\n client_ca_pem = `%s`\n client_auth_type = "+
				"\"VerifyClientCertIfGiven\"\n cipher_suites = [\"TLS_AES_128_GCM_SHA256\"]\n curve_preferences = [\"X25519\"]\n "+
				"max_version = \"TLS13\"\n }\n}",
			bytes.TrimSpace(cert), bytes.TrimSpace(key), bytes.TrimSpace(ca.pem))))
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	_, _, name, err := fetch("https://"+addr+"/-/ready", &tls.Config{RootCAs: pool})
	require.NoError(t, err)
	require.Equal(t, "text", name)
}

func TestAuth(t *testing.T) {
	basic := `basic {
		username = "me"
		password = "s3cret"
	}`
	for _, test := range []struct {
		filter string
		closed []string
		open   []string
	}{
		{"", []string{"/-/ready", "/metrics", "/"}, nil},
		{`filter { paths = ["/metrics", "/api"] }`, []string{"/metrics", "/api/v0/web/components"}, []string{"/-/ready"}},
		{"filter {\n paths = [\"/-/\"]\n authenticate_matching_paths = false\n }", []string{"/metrics", "/"},
			[]string{"/-/ready"}},
	} {
		h := newHost(t)
		require.NoError(t, h.load("http {\n auth {\n"+basic+"\n"+test.filter+"\n}\n}"))
		addr := h.serves()
		get := func(path, user, password string) int {
			request, err := http.NewRequest(http.MethodGet, "http://"+addr+path, nil)
			require.NoError(t, err)
			if user != "" {
				request.SetBasicAuth(user, password)
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			response, err := client.Do(request)
			require.NoError(t, err)
			response.Body.Close()
			return response.StatusCode
		}
		for _, path := range test.closed {
			require.Equal(t, 401, get(path, "", ""), path)
			require.Equal(t, 401, get(path, "me", "wrong"), path)
			require.Equal(t, 401, get(path, "you", "s3cret"), path)
			require.Equal(t, 200, get(path, "me", "s3cret"), path)
		}
		for _, path := range test.open {
			require.Equal(t, 200, get(path, "", ""), path)
		}
		require.NoError(t, h.load(""))
		require.Equal(t, 200, get("/metrics", "", ""))
	}
}
