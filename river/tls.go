package river

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/grafana/river/rivertypes"

	"github.com/headwater/headwater/component/common/config"
)

// TLSArguments is the tls block in the http block.
type TLSArguments struct {
	Cert             string            `river:"cert_pem,attr,optional"`
	CertFile         string            `river:"cert_file,attr,optional"`
	Key              rivertypes.Secret `river:"key_pem,attr,optional"`
	KeyFile          string            `river:"key_file,attr,optional"`
	ClientCA         string            `river:"client_ca_pem,attr,optional"`
	ClientCAFile     string            `river:"client_ca_file,attr,optional"`
	ClientAuth       config.ClientAuth `river:"client_auth_type,attr,optional"`
	CipherSuites     []tlsCipher       `river:"cipher_suites,attr,optional"`
	CurvePreferences []tlsCurve        `river:"curve_preferences,attr,optional"`
	MinVersion       tlsVersion        `river:"min_version,attr,optional"`
	MaxVersion       tlsVersion        `river:"max_version,attr,optional"`
}

// Validate implements river.Validator.
func (a *TLSArguments) Validate() error {
	if err := a.server().Validate("client_ca_pem"); err != nil {
		return err
	}
	switch {
	case (a.ClientCA != "" || a.ClientCAFile != "") && a.ClientAuth == "NoClientCert":
		return errors.New("cannot specify client_ca_pem or client_ca_file when client_auth_type is NoClientCert")
	case a.MinVersion != "" && a.MaxVersion != "" && tlsVersions[a.MinVersion] > tlsVersions[a.MaxVersion]:
		return fmt.Errorf("min_version %s is above max_version %s", a.MinVersion, a.MaxVersion)
	}
	return nil
}

func (a *TLSArguments) server() *config.ServerTLS {
	s := &config.ServerTLS{
		Cert: a.Cert, CertFile: a.CertFile,
		Key: string(a.Key), KeyFile: a.KeyFile,
		ClientCA: a.ClientCA, ClientCAFile: a.ClientCAFile,
		ClientAuth: a.ClientAuth.Type(),
		MinVersion: tlsVersions[a.MinVersion], MaxVersion: tlsVersions[a.MaxVersion],
	}
	for _, name := range a.CipherSuites {
		s.CipherSuites = append(s.CipherSuites, config.CipherSuite(string(name)))
	}
	for _, name := range a.CurvePreferences {
		s.CurvePreferences = append(s.CurvePreferences, tlsCurves[name])
	}
	return s
}

// Listener returns a listener that uses TLS on inner's connections if the http block is configured
// for it. A change applies to later connections.
func (r *Runtime) Listener(inner net.Listener) net.Listener {
	return &tlsListener{Listener: inner, runtime: r}
}

// Scheme returns https if the http block configures TLS, else http.
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

// Accept implements net.Listener. The server does the handshake later, concurrently with other
// connections.
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
