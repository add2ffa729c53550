// Package ui serves the web pages of the runtime: the list of components, their graph, and one
// component with all its details. The pages are one HTML file and scripts that read the runtime's
// API. They load no content from other servers.
package ui

import (
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed assets
var assets embed.FS

// securityPolicy allows only the pages' own files and the API.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'self'; frame-ancestors 'self'"

// Handler serves the pages below prefix, which starts and ends with a slash:
//
//	PREFIX                     the list of components
//	PREFIX graph[/MODULE]      the graph of a module's components
//	PREFIX component/ID        one component, by its global ID
//	PREFIX processes[/ID]      samples of a profiler, by process and target; without an ID of the first profiler
//	PREFIX health[/ID]         health of a profiler
//	PREFIX assets/             files of the pages
//
// The pages read PREFIX api/v0/web/, which the caller must serve.
func Handler(prefix string) http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // only for a malformed name
	}
	page := template.Must(template.ParseFS(files, "index.html"))
	static := http.StripPrefix(prefix+"assets/", http.FileServerFS(files))

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", securityPolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		rest := strings.TrimPrefix(r.URL.Path, prefix)
		switch {
		case strings.HasPrefix(rest, "assets/") && rest != "assets/" && rest != "assets/index.html":
			w.Header().Set("Cache-Control", "no-cache") // the next version has different scripts with the same names
			static.ServeHTTP(w, r)
		case rest == "", isPage(rest):
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = page.Execute(w, prefix) // the client has gone
		default:
			http.NotFound(w, r)
		}
	})
}

// isPage reports whether a path below the prefix is the path of a page.
func isPage(rest string) bool {
	name, id, _ := strings.Cut(rest, "/")
	switch name {
	case "graph", "processes", "health":
		return true
	case "component":
		return id != ""
	default:
		return false
	}
}
