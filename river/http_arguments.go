package river

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"net/http"
	"slices"
	"strings"

	"github.com/grafana/river/rivertypes"
)

// HTTPArguments is the http block: the protection of the runtime's own HTTP server.
type HTTPArguments struct {
	TLS  *TLSArguments  `river:"tls,block,optional"`
	Auth *AuthArguments `river:"auth,block,optional"`
}

// AuthArguments is the auth block, which requires a password. Of Alloy and the Agent, only Alloy
// has this block.
type AuthArguments struct {
	Basic  *BasicAuthArguments `river:"basic,block,optional"`
	Filter FilterArguments     `river:"filter,block,optional"`
}

// BasicAuthArguments are the credentials of HTTP basic authentication.
type BasicAuthArguments struct {
	Username string            `river:"username,attr"`
	Password rivertypes.Secret `river:"password,attr"`
}

// FilterArguments select the requests that need the credentials: requests whose path starts with
// one of Paths, or, without Matching, all other requests.
type FilterArguments struct {
	Paths    []string `river:"paths,attr,optional"`
	Matching bool     `river:"authenticate_matching_paths,attr,optional"`
}

// SetToDefault implements river.Defaulter. Without the block, every request
// needs the credentials.
func (f *FilterArguments) SetToDefault() { f.Matching = true }

// httpSettings are the settings of the current http block.
type httpSettings struct {
	tls  *tls.Config // plain HTTP if nil
	auth *AuthArguments
}

// newHTTPNode returns the node of the http block.
func newHTTPNode(r *Runtime) *settingNode {
	n := newSettingNode(r, "http", func(decode func(interface{}) error) error {
		var arguments HTTPArguments
		if err := decode(&arguments); err != nil {
			return err
		}
		settings := &httpSettings{auth: arguments.Auth}
		if arguments.TLS != nil {
			config, err := arguments.TLS.server().Config(r.logger)
			if err != nil {
				return err
			}
			settings.tls = config
		}
		r.http.Store(settings)
		return nil
	})
	n.failure = "Failed to evaluate service"
	return n
}

// authenticated passes a request to next if the http block does not require credentials for it, or
// if the request has valid ones.
func (r *Runtime) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if auth := r.http.Load().auth; auth != nil && !auth.allows(req) {
			w.Header().Set("WWW-Authenticate", `Basic realm="Headwater"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, req)
	})
}

func (a *AuthArguments) allows(req *http.Request) bool {
	listed := slices.ContainsFunc(a.Filter.Paths, func(path string) bool { return strings.HasPrefix(req.URL.Path, path) })
	if a.Basic == nil || listed != a.Filter.Matching {
		return true
	}
	username, password, ok := req.BasicAuth()
	// Compare both, in constant time, so that the time reveals neither.
	rightName := equalSecrets(username, a.Basic.Username)
	rightPassword := equalSecrets(password, string(a.Basic.Password))
	return ok && rightName && rightPassword
}

func equalSecrets(given, wanted string) bool {
	g, w := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(wanted))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1
}
