package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// ServerTLS configures a TLS server. A PEM text and the file that holds it exclude each other.
type ServerTLS struct {
	Cert, CertFile         string
	Key, KeyFile           string
	ClientCA, ClientCAFile string
	ClientAuth             tls.ClientAuthType
	MinVersion, MaxVersion uint16 // 0: crypto/tls's default, also for an empty CipherSuites
	CipherSuites           []uint16
	CurvePreferences       []tls.CurveID
}

// Validate returns an error if there is no certificate or key, or more than one.
// clientCA is the name of the argument for ClientCA.
func (s *ServerTLS) Validate(clientCA string) error {
	switch {
	case s.ClientCA != "" && s.ClientCAFile != "":
		return fmt.Errorf("cannot specify both %s and client_ca_file", clientCA)
	case s.Cert != "" && s.CertFile != "":
		return errors.New("cannot specify both cert_pem and cert_file")
	case s.Key != "" && s.KeyFile != "":
		return errors.New("cannot specify both key_pem and key_file")
	case s.Cert == "" && s.CertFile == "":
		return errors.New("must specify either cert_pem or cert_file")
	case s.Key == "" && s.KeyFile == "":
		return errors.New("must specify either key_pem or key_file")
	}
	return nil
}

// Config returns the server's configuration. The certificate is read again for each
// connection, so that a renewed one is used at once. While it cannot be read, the last
// good one is used.
func (s *ServerTLS) Config(logger log.Logger) (*tls.Config, error) {
	first, err := s.certificate()
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(first)
	config := &tls.Config{
		MinVersion:       s.MinVersion,
		MaxVersion:       s.MaxVersion,
		ClientAuth:       s.ClientAuth,
		CipherSuites:     s.CipherSuites,
		CurvePreferences: s.CurvePreferences,
		NextProtos:       []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate, err := s.certificate()
			if err != nil {
				level.Error(logger).Log("msg", "the last good TLS certificate stays in use", "err", err)
				return last.Load(), nil
			}
			last.Store(certificate)
			return certificate, nil
		},
	}
	config.ClientCAs, err = s.clientCAs()
	return config, err
}

func (s *ServerTLS) certificate() (*tls.Certificate, error) {
	cert, err := textOrFile("cert_file", s.Cert, s.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := textOrFile("key_file", s.Key, s.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate and key cannot be used: %w", err)
	}
	return &pair, nil
}

func (s *ServerTLS) clientCAs() (*x509.CertPool, error) {
	if s.ClientCA == "" && s.ClientCAFile == "" {
		return nil, nil
	}
	text, err := textOrFile("client_ca_file", s.ClientCA, s.ClientCAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("the client CA holds no certificate")
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

// ClientAuth is the policy for client certificates. The empty name means NoClientCert.
type ClientAuth string

var clientAuths = map[ClientAuth]tls.ClientAuthType{
	"NoClientCert":               tls.NoClientCert,
	"RequestClientCert":          tls.RequestClientCert,
	"RequireAnyClientCert":       tls.RequireAnyClientCert,
	"VerifyClientCertIfGiven":    tls.VerifyClientCertIfGiven,
	"RequireAndVerifyClientCert": tls.RequireAndVerifyClientCert,
}

// Type returns crypto/tls's value.
func (c ClientAuth) Type() tls.ClientAuthType { return clientAuths[c] }

// MarshalText implements encoding.TextMarshaler.
func (c ClientAuth) MarshalText() ([]byte, error) { return []byte(c), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *ClientAuth) UnmarshalText(text []byte) error {
	*c = ClientAuth(text)
	if _, known := clientAuths[*c]; !known {
		return fmt.Errorf("unknown client auth type %q", text)
	}
	return nil
}

// CipherSuite returns the ID of a cipher suite that is not known to be weak, or 0.
func CipherSuite(name string) uint16 {
	for _, suite := range tls.CipherSuites() {
		if suite.Name == name {
			return suite.ID
		}
	}
	return 0
}
