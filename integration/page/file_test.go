package page

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/export"
)

// TestFile: a flame graph that headwater record writes is drawn from a file, with search and zoom, loads no resources,
// and violates no policy.
func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "flame.html")
	file, err := os.Create(path)
	require.NoError(t, err)
	p := flameProfile(t)
	p.Comments = []string{export.Recorded + "process 7 (service)"}
	require.NoError(t, export.HTML(file, p))
	require.NoError(t, file.Close())

	b := openBrowser(t)
	address := (&url.URL{Scheme: "file", Path: path}).String()
	b.do(t, chromedp.Navigate(address))
	waitForFlame(t, b)
	b.screenshot(t, "file")
	require.Equal(t, "Flame graph of process 7 (service) · Headwater", result(t, b, chromedp.Title()))
	require.Equal(t, "rgb(140, 197, 236)", pixel(t, b, "main"))
	require.Contains(t, text(t, b, ".top tbody"), "do_syscall_64")
	width := flameBox(t, b, "do_syscall_64").Width
	result(t, b, chromedp.Evaluate[any](`document.querySelector("#flame").view.searchFor("do_syscall")`))
	require.True(t, strings.HasPrefix(text(t, b, "#found"), "1 frame, "), text(t, b, "#found"))
	result(t, b, chromedp.Evaluate[any](`(view => {
		for (let i = 0; i < view.tree.length; i++) if (view.tree.name(i) === "do_syscall_64") view.zoom(i);
	})(document.querySelector("#flame").view)`))
	painted(t, b)
	require.Greater(t, flameBox(t, b, "do_syscall_64").Width, width+100)
	b.do(t, chromedp.Evaluate[chromedp.Void](`(view => {
		view.searchFor("");
		view.zoom(0);
	})(document.querySelector("#flame").view)`))
	painted(t, b)
	unfoldTiny(t, b)
	b.checkComplaints(t, strings.TrimSuffix(address, "/flame.html"))
}
