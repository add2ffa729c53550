package page

import (
	"strings"
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
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

// TestClipboard copies names, stacks and links: where a page may use the clipboard, and where it may not because it
// comes from another host without TLS.
func TestClipboard(t *testing.T) {
	testkit.Nightly(t, "it checks browsers and addresses one by one, TestViews the menu")
	server := flameServer(t)
	far := strings.Replace(server.URL, "127.0.0.1", "profiles.test", 1)
	b := openBrowser(t, chromedp.Flag("host-resolver-rules", "MAP profiles.test 127.0.0.1"))
	stack := "service\nmain\n_PyEval_EvalFrameDefault\nhandle\nwrite\ndo_syscall_64"
	for _, origin := range []struct {
		address string
		secure  bool
	}{{server.URL, true}, {far, false}} {
		for entry, want := range map[string]string{"Copy name": "do_syscall_64", "Copy stack": stack, "": "link"} {
			b.do(t, chromedp.Navigate(origin.address+"/profiler/open"))
			waitForFlame(t, b)
			secure := result(t, b, chromedp.Evaluate[bool](`navigator.clipboard !== undefined`))
			require.Equal(t, origin.secure, secure, origin.address)
			if entry == "" {
				b.do(t, chromedp.Click(chromedp.CSS("#link")))
				want = result(t, b, chromedp.Location())
				require.True(t, strings.HasPrefix(want, origin.address+"/profiler/flame?from="), want)
			} else {
				pick(t, b, "do_syscall_64", entry)
			}
			painted(t, b)
			b.do(t, chromedp.Navigate(server.URL+"/profiler/"))
			require.Equal(t, want, b.clipboard(t), "%s at %s", entry, origin.address)
		}
	}
}
