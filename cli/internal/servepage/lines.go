package servepage

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/headwater/headwater/flame/tree"
)

// Limits of the source text next to the lines of a function.
const (
	maxSourceBytes = 16 << 20 // of a file
	maxSourceLines = 2000     // starting with the first line of a function
	sourceMargin   = 3        // lines before and after
)

// linesAnswer holds the values of the lines of a function.
type linesAnswer struct {
	Function string      `json:"function"`
	Unit     string      `json:"unit"`
	All      int64       `json:"all"`   // value of all samples
	Total    int64       `json:"total"` // value of the samples with the function
	Lines    []tree.Line `json:"lines"`
	Source   *textAround `json:"source,omitempty"` // nil: the file is not available
}

// textAround is a part of a file.
type textAround struct {
	File string   `json:"file"`
	From int64    `json:"from"` // the first line
	Text []string `json:"text"`
}

var errNoFunction = errors.New("there is no such function in this file")

// lines answers with the lines of a function, and their source text if the file that the profile names is available.
// Only requests from this host get the text: other hosts must not read files of this host.
func (h *Handler) lines(w http.ResponseWriter, r *http.Request) {
	i, ok := h.number(w, r)
	if !ok {
		return
	}
	p, err := h.readProfile(r.Context(), i)
	if err != nil {
		failJSON(w, http.StatusInternalServerError, err)
		return
	}
	folded, err := tree.Fold(p, nil)
	if err != nil {
		failJSON(w, http.StatusInternalServerError, err)
		return
	}
	out := linesAnswer{Function: r.URL.Query().Get("function")}
	lines := tree.NewLines(out.Function, r.URL.Query().Get("binary"))
	added, err := lines.Add(folded, tree.Choice{})
	if err != nil {
		failJSON(w, http.StatusInternalServerError, err)
		return
	}
	if lines.Total() == 0 {
		failJSON(w, http.StatusNotFound, errNoFunction)
		return
	}
	out.Unit, out.All, out.Total, out.Lines = lines.Unit(), added.Total, lines.Total(), lines.Lines()
	if isOfThisHost(r) {
		out.Source = readSource(out.Lines)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the client may be gone
}

// isOfThisHost reports whether a request came from this host.
func isOfThisHost(r *http.Request) bool {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// readSource returns the text around lines of one file; it returns nil if the text cannot be read.
func readSource(lines []tree.Line) *textAround {
	first, last := int64(0), int64(0)
	for _, l := range lines {
		if l.File != lines[0].File {
			return nil
		}
		if l.Line > 0 && (first == 0 || l.Line < first) {
			first = l.Line
		}
		last = max(last, l.Line)
	}
	if first == 0 || !filepath.IsAbs(lines[0].File) {
		return nil
	}
	text, ok := readText(lines[0].File)
	if !ok {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	from, to := max(1, first-sourceMargin), min(last+sourceMargin, first+maxSourceLines, int64(len(all)))
	if last > int64(len(all)) {
		return nil // another version of the file
	}
	return &textAround{File: lines[0].File, From: from, Text: all[from-1 : to]}
}

// readText reads a regular file of text.
func readText(name string) (string, bool) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a FIFO or device could block
	if err != nil {
		return "", false
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxSourceBytes {
		return "", false
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSourceBytes))
	if err != nil || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return "", false
	}
	return string(text), true
}
