package river

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/grafana/river/rivertypes"
)

// TLSArguments is the tls block in the http block.
type TLSArguments struct {
	Cert             string            `river:"cert_pem,attr,optional"`
	CertFile         string            `river:"cert_file,attr,optional"`
	Key              rivertypes.Secret `river:"key_pem,attr,optional"`
	KeyFile          string            `river:"key_file,attr,optional"`
	ClientCA         string            `river:"client_ca_pem,attr,optional"`
	ClientCAFile     string            `river:"client_ca_file,attr,optional"`
	ClientAuth       tlsClientAuth     `river:"client_auth_type,attr,optional"`
	CipherSuites     []tlsCipher       `river:"cipher_suites,attr,optional"`
	CurvePreferences []tlsCurve        `river:"curve_preferences,attr,optional"`
	MinVersion       tlsVersion        `river:"min_version,attr,optional"`
	MaxVersion       tlsVersion        `river:"max_version,attr,optional"`
}

// Validate implements river.Validator.
func (a *TLSArguments) Validate() error {
	switch {
	case a.ClientCA != "" && a.ClientCAFile != "":
		return errors.New("cannot specify both client_ca_pem and client_ca_file")
	case a.Cert != "" && a.CertFile != "":
		return errors.New("cannot specify both cert_pem and cert_file")
	case a.Key != "" && a.KeyFile != "":
		return errors.New("cannot specify both key_pem and key_file")
	case a.Cert == "" && a.CertFile == "":
		return errors.New("must specify either cert_pem or cert_file")
	case a.Key == "" && a.KeyFile == "":
		return errors.New("must specify either key_pem or key_file")
	case (a.ClientCA != "" || a.ClientCAFile != "") && a.ClientAuth == "NoClientCert":
		return errors.New("cannot specify client_ca_pem or client_ca_file when client_auth_type is NoClientCert")
	case a.MinVersion != "" && a.MaxVersion != "" && tlsVersions[a.MinVersion] > tlsVersions[a.MaxVersion]:
		return fmt.Errorf("min_version %s is above max_version %s", a.MinVersion, a.MaxVersion)
	}
	return nil
}

// config returns the server's configuration. The certificate is read anew for
// each connection, so that a renewed one is used at once; while it cannot be
// read, the last good one is.
func (a *TLSArguments) config(logger log.Logger) (*tls.Config, error) {
	first, err := a.certificate()
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(first)
	config := &tls.Config{
		MinVersion: tlsVersions[a.MinVersion],
		MaxVersion: tlsVersions[a.MaxVersion],
		ClientAuth: tlsClientAuths[a.ClientAuth],
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate, err := a.certificate()
			if err != nil {
				level.Error(logger).Log("msg", "the last good TLS certificate stays in use", "err", err)
				return last.Load(), nil
			}
			last.Store(certificate)
			return certificate, nil
		},
	}
	for _, name := range a.CipherSuites {
		config.CipherSuites = append(config.CipherSuites, cipherSuite(string(name)))
	}
	for _, name := range a.CurvePreferences {
		config.CurvePreferences = append(config.CurvePreferences, tlsCurves[name])
	}
	config.ClientCAs, err = a.clientCAs()
	return config, err
}

func (a *TLSArguments) certificate() (*tls.Certificate, error) {
	cert, err := textOrFile("cert_file", a.Cert, a.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := textOrFile("key_file", string(a.Key), a.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate and key cannot be used: %w", err)
	}
	return &pair, nil
}

func (a *TLSArguments) clientCAs() (*x509.CertPool, error) {
	if a.ClientCA == "" && a.ClientCAFile == "" {
		return nil, nil
	}
	text, err := textOrFile("client_ca_file", a.ClientCA, a.ClientCAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("client_ca_pem or client_ca_file holds no certificate")
	}
	return pool, nil
}

func textOrFile(name, text, path string) ([]byte, error) {
	if path == "" {
		return []byte(text), nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read %s: %w", name, err)
	}
	return content, nil
}

// Listener returns a listener that speaks TLS on inner's connections while the
// http block says so. A change holds for connections that come after it.
func (r *Runtime) Listener(inner net.Listener) net.Listener {
	return &tlsListener{Listener: inner, runtime: r}
}

// Scheme returns http, or https while the http block says so.
func (r *Runtime) Scheme() string {
	if r.http.Load().tls != nil {
		return "https"
	}
	return "http"
}

type tlsListener struct {
	net.Listener
	runtime *Runtime
}

// Accept implements net.Listener. The handshake is left to the server, which
// does it beside other connections.
func (l *tlsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if config := l.runtime.http.Load().tls; config != nil {
		return tls.Server(conn, config), nil
	}
	return conn, nil
}
