package page

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/compare"
	"github.com/headwater/headwater/flame/view"
)

// TestDiffFile: the flame graph that headwater diff writes has colours and bounds where the profiles differ, loads no
// resources, and violates no policy.
func TestDiffFile(t *testing.T) {
	t.Parallel()
	base, after := flameProfile(t), flameProfile(t)
	base.DurationNanos, after.DurationNanos = 10e9, 10e9
	for _, s := range after.Sample { // handle took twice as long by itself
		if s.Location[0].Line[0].Function.Name == "handle" {
			s.Value[0] *= 2
		}
	}
	r, err := compare.Profiles([]*profile.Profile{base}, []*profile.Profile{after}, compare.DefaultOptions())
	require.NoError(t, err)
	flame := compare.NewFlame(r, nil)
	require.NoError(t, flame.AddBase(base))
	require.NoError(t, flame.AddNew(after))
	path := filepath.Join(t.TempDir(), "diff.html")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, view.Write(file, view.About{Title: "old and new"}, flame.Tree(), nil))
	require.NoError(t, file.Close())

	b := openBrowser(t)
	address := (&url.URL{Scheme: "file", Path: path}).String()
	b.do(t, chromedp.Navigate(address))
	waitForFlame(t, b)
	b.screenshot(t, "diff")
	require.Equal(t, "rgb(247, 181, 104)", pixel(t, b, "handle")) // 60 % more including its callees
	require.Equal(t, "rgb(230, 232, 232)", pixel(t, b, "write"))
	row := text(t, b, ".top tbody tr[data-certain=true]")
	require.Contains(t, row, "handle")
	require.Contains(t, row, "+100 %")
	require.Equal(t, 1, result(t, b, chromedp.Evaluate[int](
		`document.querySelectorAll(".top tbody tr[data-certain=true]").length`)))
	result(t, b, chromedp.Evaluate[any](`document.querySelector(".top [data-column=before] button").click()`))
	require.Contains(t, text(t, b, ".top tbody tr"), "group") // had most before

	at := flameBox(t, b, "handle")
	b.do(t, chromedp.MouseEvent("mouseMoved", at.X+at.Width/2, at.Y+5))
	painted(t, b)
	tip := text(t, b, "#tip")
	require.Contains(t, tip, "before")
	require.Contains(t, tip, "from all callers")
	b.screenshot(t, "diff-tip")
	b.checkComplaints(t, strings.TrimSuffix(address, "/diff.html"))
}
