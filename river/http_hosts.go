package river

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// hostGuard refuses requests that a page of another site makes a browser send.
//
// If the name of a site resolves to our address (DNS rebinding), a browser considers it the same
// origin, and only the Host header shows the difference. The header must be an address, a name of
// this machine, or a name that the operator allowed. Probes and /metrics accept every name: they
// expose no configuration, and scrapers use names of Kubernetes services.
//
// Requests that change state, including GET /-/reload, are also refused if the browser says that
// another site's page made them. Browsers do not say so for a GET over plain HTTP to a host that is
// not localhost, so browsers have to use POST there.
type hostGuard struct {
	names  []string // in lower case
	any    bool
	origin *http.CrossOriginProtection
	next   http.Handler
}

// hostsOfAll are the paths that accept every host name.
var hostsOfAll = map[string]bool{"/-/ready": true, "/-/healthy": true, "/metrics": true}

// newHostGuard protects next. listen is the server's address; allowed are additional host names,
// where "*" means all.
func newHostGuard(listen string, allowed []string, next http.Handler) *hostGuard {
	g := &hostGuard{any: slices.Contains(allowed, "*"), origin: http.NewCrossOriginProtection(), next: next}
	names := append([]string{"localhost", hostOf(listen)}, allowed...)
	if own, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(own, ".")
		names = append(names, own, short)
	}
	for _, name := range names {
		if name != "" {
			g.names = append(g.names, plainHost(name))
		}
	}
	return g
}

// ServeHTTP implements http.Handler.
func (g *hostGuard) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !g.knows(req) {
		http.Error(w,
			fmt.Sprintf("host %.100q is not a name of this server; --server.http.allowed-hosts adds names",
				req.Host), http.StatusForbidden)
		return
	}
	if err := g.foreign(req); err != nil {
		http.Error(w, fmt.Sprintf("refused, as the request is from a page of another site: %v", err), http.StatusForbidden)
		return
	}
	g.next.ServeHTTP(w, req)
}

// knows reports whether a request is addressed to this server. Only a request over the network can
// have followed a false name.
func (g *hostGuard) knows(req *http.Request) bool {
	local, _ := req.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if g.any || hostsOfAll[req.URL.Path] || local == nil || local.Network() != "tcp" {
		return true
	}
	host := plainHost(hostOf(req.Host))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return host == "" || strings.HasSuffix(host, ".localhost") || slices.Contains(g.names, host)
}

// foreign returns an error for a request that changes state and comes from a page of another
// origin.
func (g *hostGuard) foreign(req *http.Request) error {
	if req.URL.Path == "/-/reload" && req.Method == http.MethodGet {
		if silent := req.Header.Get("Sec-Fetch-Site") == "" && req.Header.Get("Origin") == ""; silent && fromBrowser(req) {
			return errors.New("the browser did not name the page; use POST, or curl")
		}
		req = req.Clone(req.Context())
		req.Method = http.MethodPost
	}
	return g.origin.Check(req)
}

// fromBrowser reports whether a browser sent a request. All browsers call themselves Mozilla, and a
// page of another site cannot change that.
func fromBrowser(req *http.Request) bool {
	return strings.HasPrefix(req.UserAgent(), "Mozilla/") || req.Referer() != ""
}

// hostOf returns the host of "host:port" or "host".
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

func plainHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }
