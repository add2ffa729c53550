package river

import (
	"crypto/tls"
	"fmt"

	"github.com/headwater/headwater/component/common/config"
)

// Names in the tls block for values of crypto/tls. The empty name means the default of crypto/tls.
type (
	tlsCipher  string
	tlsCurve   string
	tlsVersion string
)

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

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *tlsCipher) UnmarshalText(text []byte) error {
	*n = tlsCipher(text)
	if config.CipherSuite(string(text)) == 0 {
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
func (n tlsCipher) MarshalText() ([]byte, error) { return []byte(n), nil }

// MarshalText implements encoding.TextMarshaler.
func (n tlsCurve) MarshalText() ([]byte, error) { return []byte(n), nil }

// MarshalText implements encoding.TextMarshaler.
func (n tlsVersion) MarshalText() ([]byte, error) { return []byte(n), nil }
