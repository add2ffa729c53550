// Package servepage serves the flame graphs of profile files: an index, a page for each file with downloads in all
// formats, and pages that reload when a file changes.
package servepage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"mime"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/cli/internal/profilefile"
	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/view"
)

//go:embed page
var assets embed.FS

var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(assets, "page/*.html"))
})

// Handler serves files. It keeps one of them in memory at a time.
type Handler struct {
	files []string
	host  string // the served host name, without a port
	mux   http.ServeMux

	mu   sync.Mutex
	last struct {
		stamp   string
		profile *profile.Profile
	}
}

// New returns a handler for files. listen is the address on which it is served.
func New(files []string, listen string) *Handler {
	h := &Handler{files: files, host: hostOf(listen)}
	h.mux.HandleFunc("GET /{$}", h.index)
	h.mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, h.version()) })
	h.mux.HandleFunc("GET /{name}", h.asset)
	h.mux.HandleFunc("GET /{file}/{$}", h.flame)
	h.mux.HandleFunc("GET /{file}/tree", h.serveTree)
	h.mux.HandleFunc("GET /{file}/lines", h.lines)
	h.mux.HandleFunc("GET /{file}/download", h.download)
	return h
}

// ServeHTTP implements http.Handler. Another site could let its name point to this server (DNS rebinding), so it
// accepts only IP addresses and its own name as the Host.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	if name := hostOf(r.Host); name != h.host && name != "localhost" && net.ParseIP(strings.Trim(name, "[]")) == nil {
		http.Error(w, fmt.Sprintf("%.100q is no name of this server: use its address", name), http.StatusForbidden)
		return
	}
	h.mux.ServeHTTP(w, r)
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return strings.ToLower(host)
	}
	return strings.ToLower(address)
}

// entry describes a file on a page.
type entry struct {
	Number               int
	Name, Title, Changed string
	Error                string
}

func (h *Handler) index(w http.ResponseWriter, r *http.Request) {
	version := h.version() // before reading the files: a change in between reloads the page
	var all []entry
	for i := range h.files {
		all = append(all, h.about(r.Context(), i))
	}
	render(w, "index.html", map[string]any{"Files": all, "Formats": export.Formats(), "Version": version})
}

// about reads a file and describes its profile.
func (h *Handler) about(ctx context.Context, i int) entry {
	e := entry{Number: i + 1, Name: h.files[i]}
	if info, err := os.Stat(e.Name); err == nil {
		e.Changed = info.ModTime().Format("2006-01-02 15:04:05")
	}
	p, err := h.readProfile(ctx, i)
	if err != nil {
		e.Error = err.Error()
		return e
	}
	e.Title = export.Title(p)
	if p.DurationNanos > 0 {
		e.Title += fmt.Sprintf(", %.1f s", time.Duration(p.DurationNanos).Seconds())
	}
	return e
}

// readProfile returns the current profile of a file. The caller may modify it.
func (h *Handler) readProfile(ctx context.Context, i int) (*profile.Profile, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stamp := stampOf(h.files[i])
	if h.last.profile == nil || h.last.stamp != stamp {
		h.last.profile = nil
		if err := CheckFile(h.files[i]); err != nil {
			return nil, err
		}
		p, err := profilefile.Read(ctx, h.files[i], nil)
		if err != nil {
			return nil, err
		}
		h.last.profile, h.last.stamp = p, stamp
	}
	return h.last.profile.Copy(), nil
}

// CheckFile returns an error if the file is not regular: reading a pipe could block indefinitely.
func CheckFile(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	return err
}

// stampOf returns a value that changes when a file changes.
func stampOf(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return name + " " + err.Error()
	}
	return fmt.Sprint(name, " ", info.Size(), " ", info.ModTime().UnixNano())
}

// version returns a value that changes when one of the files changes.
func (h *Handler) version() string {
	sum := sha256.New()
	for _, name := range h.files {
		fmt.Fprintln(sum, stampOf(name))
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}

func (h *Handler) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	body, err := view.Asset(name)
	if name == "reload.js" {
		body, err = assets.ReadFile("page/reload.js")
	}
	kinds := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
	kind := kinds[path.Ext(name)]
	if err != nil || kind == "" {
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Write(body)
}

// number returns the index of the file that a request is for. If there is none, it answers the request itself.
func (h *Handler) number(w http.ResponseWriter, r *http.Request) (int, bool) {
	n, err := strconv.Atoi(r.PathValue("file"))
	if err != nil || n < 1 || n > len(h.files) {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return 0, false
	}
	return n - 1, true
}

func (h *Handler) flame(w http.ResponseWriter, r *http.Request) {
	i, ok := h.number(w, r)
	if !ok {
		return
	}
	version := h.version()
	e := h.about(r.Context(), i)
	if e.Error != "" {
		http.Error(w, e.Error, http.StatusInternalServerError)
		return
	}
	render(w, "flame.html", map[string]any{"File": e, "Formats": export.Formats(), "Version": version})
}

func (h *Handler) download(w http.ResponseWriter, r *http.Request) {
	i, ok := h.number(w, r)
	if !ok {
		return
	}
	format, err := export.ByName(r.URL.Query().Get("format"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p, err := h.readProfile(r.Context(), i)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body := &attachment{w: w, name: withoutSuffix(path.Base(h.files[i])) + format.Suffixes[0]}
	err = format.Write(body, p)
	switch {
	case err == nil:
		body.begin() // also send the headers of an empty file
	case body.begun:
		panic(http.ErrAbortHandler) // lets the client notice that the file is incomplete
	default: // some profiles lack data that a format needs
		http.Error(w, fmt.Sprintf("%s as %s: %v", h.files[i], format.Name, err), http.StatusUnprocessableEntity)
	}
}

// attachment is a file that is sent while it is generated: as text, a profile with deep stacks can have hundreds of MB.
type attachment struct {
	w     http.ResponseWriter
	name  string
	begun bool
}

func (a *attachment) begin() {
	if a.begun {
		return
	}
	a.begun = true
	a.w.Header().Set("Content-Type", "application/octet-stream")
	a.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.name}))
}

// Write implements io.Writer.
func (a *attachment) Write(b []byte) (int, error) {
	a.begin()
	return a.w.Write(b)
}

// withoutSuffix removes the suffix that indicates the format from a file's name.
func withoutSuffix(name string) string {
	cut := strings.TrimSuffix(name, path.Ext(name))
	for _, format := range export.Formats() {
		for _, suffix := range format.Suffixes {
			if short := strings.TrimSuffix(name, suffix); len(short) < len(cut) {
				cut = short
			}
		}
	}
	if cut == "" {
		return name
	}
	return cut
}

func render(w http.ResponseWriter, name string, data any) {
	var body bytes.Buffer
	if err := pages().ExecuteTemplate(&body, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(body.Bytes())
}
