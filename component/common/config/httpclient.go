// Package config holds the arguments that many components share, such as the HTTP client's. It uses the names, defaults
// and checks of Grafana Agent and Alloy.
package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/grafana/river/rivertypes"
	promconfig "github.com/prometheus/common/config"
	"golang.org/x/net/http/httpguts"

	"github.com/headwater/headwater/component"
)

// HTTPClientConfig is Prometheus' configuration of an HTTP client, as written in River.
type HTTPClientConfig struct {
	BasicAuth       *BasicAuth                     `river:"basic_auth,block,optional"`
	Authorization   *Authorization                 `river:"authorization,block,optional"`
	OAuth2          *OAuth2                        `river:"oauth2,block,optional"`
	BearerToken     rivertypes.Secret              `river:"bearer_token,attr,optional"`
	BearerTokenFile string                         `river:"bearer_token_file,attr,optional"`
	Proxy           ProxyConfig                    `river:",squash"`
	TLS             TLSConfig                      `river:"tls_config,block,optional"`
	FollowRedirects bool                           `river:"follow_redirects,attr,optional"`
	EnableHTTP2     bool                           `river:"enable_http2,attr,optional"`
	HTTPHeaders     map[string][]rivertypes.Secret `river:"http_headers,attr,optional"`
}

// SetToDefault sets the defaults. (River calls no methods of a squashed struct.)
func (c *HTTPClientConfig) SetToDefault() {
	*c = HTTPClientConfig{FollowRedirects: true, EnableHTTP2: true}
}

// Validate checks for arguments that exclude each other. River validates the blocks inside c separately.
func (c *HTTPClientConfig) Validate() error {
	ways := 0
	for _, configured := range []bool{
		c.BasicAuth != nil, c.Authorization != nil, c.OAuth2 != nil, c.BearerToken != "", c.BearerTokenFile != "",
	} {
		if configured {
			ways++
		}
	}
	if ways > 1 {
		return errors.New(
			"at most one of basic_auth, authorization, oauth2, bearer_token & bearer_token_file must be configured")
	}
	for name := range c.HTTPHeaders {
		if err := CheckHeaderName("http_headers", name); err != nil {
			return err
		}
	}
	return c.Proxy.Validate()
}

// Convert returns c as Prometheus' library expects it.
func (c *HTTPClientConfig) Convert() promconfig.HTTPClientConfig {
	out := promconfig.HTTPClientConfig{
		BearerToken:     promconfig.Secret(c.BearerToken),
		BearerTokenFile: c.BearerTokenFile,
		TLSConfig:       c.TLS.convert(),
		ProxyConfig:     c.Proxy.convert(),
		FollowRedirects: c.FollowRedirects,
		EnableHTTP2:     c.EnableHTTP2,
	}
	if b := c.BasicAuth; b != nil {
		out.BasicAuth = &promconfig.BasicAuth{Username: b.Username, Password: promconfig.Secret(b.Password),
			PasswordFile: b.PasswordFile}
	}
	if a := c.Authorization; a != nil {
		out.Authorization = &promconfig.Authorization{Type: a.scheme(), Credentials: promconfig.Secret(a.Credentials),
			CredentialsFile: a.CredentialsFile}
	}
	if c.OAuth2 != nil {
		out.OAuth2 = c.OAuth2.convert()
	}
	if len(c.HTTPHeaders) > 0 {
		out.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{}}
		for name, values := range c.HTTPHeaders {
			out.HTTPHeaders.Headers[name] = promconfig.Header{Secrets: convertSecrets(values)}
		}
	}
	return out
}

func convertSecrets(values []rivertypes.Secret) []promconfig.Secret {
	out := make([]promconfig.Secret, len(values))
	for i, value := range values {
		out[i] = promconfig.Secret(value)
	}
	return out
}

// BasicAuth is HTTP's basic authentication.
type BasicAuth struct {
	Username     string            `river:"username,attr,optional"`
	Password     rivertypes.Secret `river:"password,attr,optional"`
	PasswordFile string            `river:"password_file,attr,optional"`
}

// Validate implements river.Validator.
func (b *BasicAuth) Validate() error {
	if b.Password != "" && b.PasswordFile != "" {
		return errors.New("at most one of basic_auth password & password_file must be configured")
	}
	return nil
}

// Authorization is the Authorization header of every request.
type Authorization struct {
	Type            string            `river:"type,attr,optional"`
	Credentials     rivertypes.Secret `river:"credentials,attr,optional"`
	CredentialsFile string            `river:"credentials_file,attr,optional"`
}

// Validate implements river.Validator.
func (a *Authorization) Validate() error {
	if a.Credentials != "" && a.CredentialsFile != "" {
		return errors.New("at most one of authorization credentials & credentials_file must be configured")
	}
	if strings.EqualFold(a.scheme(), "basic") {
		return errors.New(`authorization type cannot be set to "basic", use "basic_auth" block instead`)
	}
	return nil
}

// scheme returns the word before the credentials.
func (a *Authorization) scheme() string {
	if scheme := strings.TrimSpace(a.Type); scheme != "" {
		return scheme
	}
	return "Bearer"
}

// OAuth2 gets tokens by OAuth 2.0 with client credentials.
type OAuth2 struct {
	ClientID         string            `river:"client_id,attr,optional"`
	ClientSecret     rivertypes.Secret `river:"client_secret,attr,optional"`
	ClientSecretFile string            `river:"client_secret_file,attr,optional"`
	Scopes           []string          `river:"scopes,attr,optional"`
	TokenURL         string            `river:"token_url,attr,optional"`
	EndpointParams   map[string]string `river:"endpoint_params,attr,optional"`
	Proxy            ProxyConfig       `river:",squash"`
	TLS              TLSConfig         `river:"tls_config,block,optional"`
}

// Validate implements river.Validator.
func (o *OAuth2) Validate() error {
	switch {
	case o.ClientID == "":
		return errors.New("oauth2 client_id must be configured")
	case o.ClientSecret == "" && o.ClientSecretFile == "":
		return errors.New("either oauth2 client_secret or client_secret_file must be configured")
	case o.ClientSecret != "" && o.ClientSecretFile != "":
		return errors.New("at most one of oauth2 client_secret & client_secret_file must be configured")
	case o.TokenURL == "":
		return errors.New("oauth2 token_url must be configured")
	}
	return o.Proxy.Validate()
}

func (o *OAuth2) convert() *promconfig.OAuth2 {
	return &promconfig.OAuth2{
		ClientID:         o.ClientID,
		ClientSecret:     promconfig.Secret(o.ClientSecret),
		ClientSecretFile: o.ClientSecretFile,
		Scopes:           o.Scopes,
		TokenURL:         o.TokenURL,
		EndpointParams:   o.EndpointParams,
		ProxyConfig:      o.Proxy.convert(),
		TLSConfig:        o.TLS.convert(),
	}
}

// ProxyConfig selects the proxy for requests.
type ProxyConfig struct {
	ProxyURL             URL                            `river:"proxy_url,attr,optional"`
	NoProxy              string                         `river:"no_proxy,attr,optional"`
	ProxyFromEnvironment bool                           `river:"proxy_from_environment,attr,optional"`
	ProxyConnectHeader   map[string][]rivertypes.Secret `river:"proxy_connect_header,attr,optional"`
}

// Validate returns an error that names the arguments that exclude or require each other.
func (p *ProxyConfig) Validate() error {
	configured := p.ProxyURL.URL != nil && p.ProxyURL.String() != ""
	switch {
	case len(p.ProxyConnectHeader) > 0 && !configured && !p.ProxyFromEnvironment:
		return errors.New(
			"if proxy_connect_header is configured, proxy_url or proxy_from_environment must also be configured")
	case p.ProxyFromEnvironment && configured:
		return errors.New("if proxy_from_environment is configured, proxy_url must not be configured")
	case p.ProxyFromEnvironment && p.NoProxy != "":
		return errors.New("if proxy_from_environment is configured, no_proxy must not be configured")
	case p.NoProxy != "" && !configured:
		return errors.New("if no_proxy is configured, proxy_url must also be configured")
	}
	return nil
}

func (p *ProxyConfig) convert() promconfig.ProxyConfig {
	out := promconfig.ProxyConfig{
		ProxyURL:             promconfig.URL{URL: p.ProxyURL.URL},
		NoProxy:              p.NoProxy,
		ProxyFromEnvironment: p.ProxyFromEnvironment,
	}
	if len(p.ProxyConnectHeader) > 0 {
		out.ProxyConnectHeader = promconfig.ProxyHeader{}
		for name, values := range p.ProxyConnectHeader {
			out.ProxyConnectHeader[name] = convertSecrets(values)
		}
	}
	return out
}

// URL is a URL whose password is hidden when it is shown.
type URL struct{ *url.URL }

// MarshalText implements encoding.TextMarshaler.
func (u URL) MarshalText() ([]byte, error) {
	if u.URL == nil {
		return nil, nil
	}
	return []byte(u.Redacted()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *URL) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	if err != nil {
		return HideURL(err)
	}
	u.URL = parsed
	return nil
}

// HideURL removes the URL, which may hold a password, from an error of url.Parse.
func HideURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return fmt.Errorf("is not a valid URL: %w", parse.Err)
	}
	return err
}

// TLSVersion is a version of TLS, written TLS10 to TLS13.
type TLSVersion uint16

// MarshalText implements encoding.TextMarshaler.
func (v TLSVersion) MarshalText() ([]byte, error) {
	for name, version := range promconfig.TLSVersions {
		if promconfig.TLSVersion(v) == version {
			return []byte(name), nil
		}
	}
	return nil, fmt.Errorf("unknown TLS version: %d", v)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *TLSVersion) UnmarshalText(text []byte) error {
	version, known := promconfig.TLSVersions[string(text)]
	if !known {
		return fmt.Errorf("unknown TLS version: %s", text)
	}
	*v = TLSVersion(version)
	return nil
}

// TLSConfig says how a TLS client verifies the server and identifies itself.
type TLSConfig struct {
	CA                 string            `river:"ca_pem,attr,optional"`
	CAFile             string            `river:"ca_file,attr,optional"`
	Cert               string            `river:"cert_pem,attr,optional"`
	CertFile           string            `river:"cert_file,attr,optional"`
	Key                rivertypes.Secret `river:"key_pem,attr,optional"`
	KeyFile            string            `river:"key_file,attr,optional"`
	ServerName         string            `river:"server_name,attr,optional"`
	InsecureSkipVerify bool              `river:"insecure_skip_verify,attr,optional"`
	MinVersion         TLSVersion        `river:"min_version,attr,optional"`
}

// Validate implements river.Validator.
func (t *TLSConfig) Validate() error {
	cert, key := t.Cert != "" || t.CertFile != "", t.Key != "" || t.KeyFile != ""
	switch {
	case t.CA != "" && t.CAFile != "":
		return errors.New("at most one of ca_pem and ca_file must be configured")
	case t.Cert != "" && t.CertFile != "":
		return errors.New("at most one of cert_pem and cert_file must be configured")
	case t.Key != "" && t.KeyFile != "":
		return errors.New("at most one of key_pem and key_file must be configured")
	case cert && !key:
		return errors.New("exactly one of key_pem or key_file must be configured when a client certificate is configured")
	case key && !cert:
		return errors.New("exactly one of cert_pem or cert_file must be configured when a client key is configured")
	}
	return nil
}

func (t *TLSConfig) convert() promconfig.TLSConfig {
	return promconfig.TLSConfig{
		CA: t.CA, CAFile: t.CAFile,
		Cert: t.Cert, CertFile: t.CertFile,
		Key: promconfig.Secret(t.Key), KeyFile: t.KeyFile,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify,
		MinVersion:         promconfig.TLSVersion(t.MinVersion),
	}
}

// CheckHeaderName returns an error about argument if name is not a valid HTTP header name.
func CheckHeaderName(argument, name string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return component.Refuse(argument, "has %q, which is not the name of an HTTP header", name)
	}
	return nil
}
