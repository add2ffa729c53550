package server

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headwater/headwater/flame/compare"
	"github.com/headwater/headwater/flame/view"
)

//go:embed page
var assets embed.FS

// templates returns the page's templates, parsed at first use.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"count":   formatCount,
		"percent": formatPercent,
		"share":   share,
		"total":   total,
		"bytes":   formatBytes,
		"clock":   func(t time.Time) string { return formatClock(t, time.Now()) },
		"date":    func(t time.Time) string { return t.Format(time.DateTime) },
		"iso":     func(t time.Time) string { return t.Format(time.RFC3339) },
		"minutes": func(d time.Duration) string { return fmt.Sprintf("%g minutes", d.Minutes()) },
		"amount":  amount,
		"change":  func(c compare.Change) string { return changeText(&c) },
		"between": func(c compare.Change) string { return betweenText(&c) },
	}).ParseFS(assets, "page/*.html"))
})

// assetNames are the scripts and styles of the page, of this package and of package view.
var assetNames = []string{"style.css", "page.js", "flame.css", "flame.js", "timeline.css", "timeline.js", "group.js"}

func serveAsset(w http.ResponseWriter, name string) {
	body, err := assets.ReadFile("page/" + name)
	if err != nil {
		body, err = view.Asset(name)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	contentType := "text/javascript; charset=utf-8"
	if strings.HasSuffix(name, ".css") {
		contentType = "text/css; charset=utf-8"
	}
	w.Header().Set("Content-Type", contentType)
	w.Write(body)
}

// formatClock formats a time of day, with the date if the date is not today.
func formatClock(t, now time.Time) string {
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// formatCount formats 1234567 as 1,234,567.
func formatCount(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// formatPercent formats a share from 0 to 1 in percent with one decimal. It rounds down near the end: it returns 100 %
// only for a share of 1.
func formatPercent(share float64) string {
	percent := share * 100
	if percent < 100 && percent > 99.9 {
		percent = 99.9
	}
	if percent > 0 && percent < 0.1 {
		return "<0.1 %"
	}
	return strconv.FormatFloat(percent, 'f', 1, 64) + " %"
}

// formatBytes formats a number of bytes in a suitable unit.
func formatBytes(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}

func pidText(pid uint32) string { return "pid " + strconv.FormatUint(uint64(pid), 10) }
