package page

import (
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// clipboard returns the text that the clipboard has. The page must be one that may read it: of this host, or a file.
func (b *browser) clipboard(t testing.TB) string {
	t.Helper()
	_, err := chromedp.Call(b.ctx, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
		Permission: &cdpbrowser.PermissionDescriptor{Name: "clipboard-read"}, Setting: cdpbrowser.PermissionSettingGranted,
	})
	require.NoError(t, err)
	return result(t, b, chromedp.Evaluate[string](`navigator.clipboard.readText()`, chromedp.EvalAwaitPromise))
}

// allowDownloads lets the browser put files into a folder.
func (b *browser) allowDownloads(t testing.TB, dir string) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
		Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir,
	})
	require.NoError(t, err)
}
