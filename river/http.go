package river

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/url"
	"path"
	"strings"

	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headwater/headwater/river/ui"
)

// componentPath is the path below which components serve their own pages, followed by their ID.
const componentPath = "/api/v0/component/"

// HTTPOptions configures a Handler.
type HTTPOptions struct {
	Gatherer prometheus.Gatherer // source of /metrics
	Reload   func() error        // loads the configuration again
	PProf    bool                // serve /debug/pprof/
	UIPrefix string              // path of the pages and the web API; "" means /

	ListenAddr   string   // "host:port" of the server, whose host name is accepted in requests
	AllowedHosts []string // additional host names; "*" means all

	RequireHealthy bool // not ready while a component is not healthy
}

// Handler serves the runtime's state and API under this machine's names and addresses, to clients
// that the http block allows:
//
//	/-/ready /-/healthy         for probes
//	/-/reload                   load the configuration again
//	/metrics /debug/pprof/
//	/api/v0/component/ID/       pages that components serve themselves
//	PREFIX/api/v0/web/components[/ID]
//	PREFIX/api/v0/web/imports
//	PREFIX/api/v0/web/modules/ID/components, /imports
//	PREFIX/                     pages for users, see package ui
func (r *Runtime) Handler(options HTTPOptions) http.Handler {
	prefix := path.Join("/", options.UIPrefix)
	mux := http.NewServeMux()
	mux.HandleFunc("/-/ready", r.serveReady(options.RequireHealthy))
	mux.HandleFunc("/-/healthy", r.serveHealthy)
	mux.HandleFunc("GET /-/reload", r.serveReload(options.Reload))
	mux.HandleFunc("POST /-/reload", r.serveReload(options.Reload))
	mux.Handle("/metrics", promhttp.HandlerFor(options.Gatherer, promhttp.HandlerOpts{
		// A component with inconsistent metrics must not hide the metrics of other components.
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      metricsErrors{r},
	}))
	if options.PProf {
		handlePProf(mux)
	}
	mux.HandleFunc(componentPath, r.serveComponentPages)
	mux.HandleFunc("GET "+path.Join(prefix, "api/v0/web/components"), r.serveComponents)
	mux.HandleFunc("GET "+path.Join(prefix, "api/v0/web/components")+"/{id...}", r.serveComponent)
	mux.HandleFunc("GET "+path.Join(prefix, "api/v0/web/imports"), r.serveImports)
	mux.HandleFunc("GET "+path.Join(prefix, "api/v0/web/modules")+"/{rest...}", r.serveModule)
	base := strings.TrimSuffix(prefix, "/") + "/"
	pages := ui.Handler(base)
	for _, page := range []string{
		"{$}", "graph", "graph/", "component/", "assets/", "processes", "processes/", "health", "health/",
	} {
		mux.Handle("GET "+base+page, pages)
	}
	return newHostGuard(options.ListenAddr, options.AllowedHosts, r.authenticated(mux))
}

func handlePProf(mux *http.ServeMux) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

type metricsErrors struct{ r *Runtime }

// Println implements promhttp.Logger.
func (m metricsErrors) Println(v ...interface{}) {
	level.Warn(m.r.logger).Log("msg", "some metrics cannot be served", "err", strings.TrimSpace(fmt.Sprintln(v...)))
}

func (r *Runtime) serveReady(healthy bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if !r.Ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "Headwater is not ready.")
			return
		}
		if ids := r.notHealthy(); healthy && len(ids) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "Headwater is not ready: components that are not healthy:", strings.Join(ids, ", "))
			return
		}
		fmt.Fprintln(w, "Headwater is ready.")
	}
}

func (r *Runtime) serveHealthy(w http.ResponseWriter, _ *http.Request) {
	if unhealthy := r.Unhealthy(); len(unhealthy) > 0 {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintln(w, "unhealthy components:", strings.Join(unhealthy, ", "))
		return
	}
	fmt.Fprintln(w, "All Headwater components are healthy.")
}

func (r *Runtime) serveReload(reload func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		level.Info(r.logger).Log("msg", "reload requested via /-/reload endpoint")
		err := reload()
		if err == nil {
			fmt.Fprintln(w, "config reloaded")
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusBadRequest)
		var failed *LoadError
		if !errors.As(err, &failed) {
			fmt.Fprintln(w, err)
			return
		}
		_ = failed.Fprint(w, false) // the client has gone
		fmt.Fprintf(w, "\nfailed to reload config: %s\n", failed.Consequence())
	}
}

// serveComponentPages passes requests to the component named by the path. The ID of a component in
// a module contains slashes.
func (r *Runtime) serveComponentPages(w http.ResponseWriter, req *http.Request) {
	id, rest, slash, handler := r.splitComponentPath(strings.TrimPrefix(req.URL.Path, componentPath))
	switch {
	case handler == nil:
		http.NotFound(w, req)
	case !slash:
		target := url.URL{Path: path.Base(req.URL.Path) + "/", RawQuery: req.URL.RawQuery}
		http.Redirect(w, req, target.String(), http.StatusPermanentRedirect)
	default:
		inner := req.Clone(req.Context())
		inner.URL.Path = "/" + rest
		inner.URL.RawPath = ""
		if raw, ok := strings.CutPrefix(req.URL.RawPath, componentPath+id); ok {
			inner.URL.RawPath = raw
		}
		handler.ServeHTTP(w, inner)
	}
}

// splitComponentPath splits a path into the ID of a component that serves pages and the rest of the
// path.
func (r *Runtime) splitComponentPath(text string) (id, rest string, slash bool, handler http.Handler) {
	for end := 0; ; end++ {
		next := strings.IndexByte(text[end:], '/')
		if next < 0 {
			return text, "", false, r.handler(text)
		}
		end += next
		if handler := r.handler(text[:end]); handler != nil {
			return text[:end], text[end+1:], true, handler
		}
	}
}

func (r *Runtime) serveComponents(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, r.Components())
}

func (r *Runtime) serveComponent(w http.ResponseWriter, req *http.Request) {
	info, found := r.Component(req.PathValue("id"))
	if !found {
		http.NotFound(w, req)
		return
	}
	writeJSON(w, info)
}

// serveModule serves MODULE/components and MODULE/imports below web/modules. The module's ID may
// contain slashes.
func (r *Runtime) serveModule(w http.ResponseWriter, req *http.Request) {
	id, what := path.Split(req.PathValue("rest"))
	id = strings.TrimSuffix(id, "/")
	var infos any
	found := false
	switch {
	case id == "":
	case what == "components":
		infos, found = r.ModuleComponents(id)
	case what == "imports":
		infos, found = r.ModuleImports(id)
	}
	if !found {
		http.NotFound(w, req)
		return
	}
	writeJSON(w, infos)
}

func writeJSON(w http.ResponseWriter, value interface{}) {
	body, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client has gone
}
