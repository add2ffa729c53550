package river

import (
	"crypto/tls"
	"fmt"
)

// The names that the tls block has for the values of crypto/tls. The empty name
// means what crypto/tls does by default.
type (
	tlsClientAuth string
	tlsCipher     string
	tlsCurve      string
	tlsVersion    string
)

var tlsClientAuths = map[tlsClientAuth]tls.ClientAuthType{
	"NoClientCert":               tls.NoClientCert,
	"RequestClientCert":          tls.RequestClientCert,
	"RequireAnyClientCert":       tls.RequireAnyClientCert,
	"VerifyClientCertIfGiven":    tls.VerifyClientCertIfGiven,
	"RequireAndVerifyClientCert": tls.RequireAndVerifyClientCert,
}

var tlsCurves = map[tlsCurve]tls.CurveID{
	"CurveP256": tls.CurveP256,
	"CurveP384": tls.CurveP384,
	"CurveP521": tls.CurveP521,
	"X25519":    tls.X25519,
}

var tlsVersions = map[tlsVersion]uint16{
	"TLS10": tls.VersionTLS10,
	"TLS11": tls.VersionTLS11,
	"TLS12": tls.VersionTLS12,
	"TLS13": tls.VersionTLS13,
}

// cipherSuite returns the ID of a cipher suite that is not known to be weak, or 0.
func cipherSuite(name string) uint16 {
	for _, suite := range tls.CipherSuites() {
		if suite.Name == name {
			return suite.ID
		}
	}
	return 0
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *tlsClientAuth) UnmarshalText(text []byte) error {
	*n = tlsClientAuth(text)
	if _, known := tlsClientAuths[*n]; !known {
		return fmt.Errorf("unknown client auth type %q", text)
	}
	return nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *tlsCipher) UnmarshalText(text []byte) error {
	*n = tlsCipher(text)
	if cipherSuite(string(text)) == 0 {
		return fmt.Errorf("unknown cipher %q", text)
	}
	return nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *tlsCurve) UnmarshalText(text []byte) error {
	*n = tlsCurve(text)
	if _, known := tlsCurves[*n]; !known {
		return fmt.Errorf("unknown curve %q", text)
	}
	return nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *tlsVersion) UnmarshalText(text []byte) error {
	*n = tlsVersion(text)
	if _, known := tlsVersions[*n]; !known {
		return fmt.Errorf("unknown TLS version %q", text)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (n tlsClientAuth) MarshalText() ([]byte, error) { return []byte(n), nil }

// MarshalText implements encoding.TextMarshaler.
func (n tlsCipher) MarshalText() ([]byte, error) { return []byte(n), nil }

// MarshalText implements encoding.TextMarshaler.
func (n tlsCurve) MarshalText() ([]byte, error) { return []byte(n), nil }

// MarshalText implements encoding.TextMarshaler.
func (n tlsVersion) MarshalText() ([]byte, error) { return []byte(n), nil }
