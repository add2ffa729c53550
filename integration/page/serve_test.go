package page

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestServe opens the page of headwater serve: files are listed, shown with all that a flame graph has, downloaded, and
// shown again when they change.
func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shop, other := filepath.Join(dir, "shop.pb.gz"), filepath.Join(dir, "other.folded")
	file, err := os.Create(shop)
	require.NoError(t, err)
	require.NoError(t, flameProfile(t).Write(file))
	require.NoError(t, file.Close())
	require.NoError(t, os.WriteFile(other, []byte("main;hot 90\nmain;cold 10\n"), 0o600))
	address, cmd := startServe(t, shop, other)

	b := openBrowser(t)
	ui := &uiPage{t: t, b: b, url: address}
	b.do(t, chromedp.Navigate(address))
	ui.checkNames()
	b.screenshot(t, "serve-files")
	b.do(t, chromedp.Click(chromedp.CSS(`a[href="/1/"]`)))
	b.waits(t, "the flame graph is drawn", `document.querySelector("#flame")?.view !== undefined`)
	ui.checkNames()
	b.screenshot(t, "serve")
	near(t, framesOf(t, b, "main"), map[string]float64{"main": 1040. / 2040, "handle": 500. / 2040, "group0": 500. / 2040})
	press(t, b, "/", "")
	b.do(t, chromedp.KeyEvent("do_syscall"))
	painted(t, b)
	require.Equal(t, "1 frame, 9.8 %", text(t, b, "#found"))
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.searchFor("")`))
	painted(t, b)
	unfoldTiny(t, b)
	pick(t, b, "handle", "Callers and callees")
	require.Contains(t, text(t, b, "#sandwich-heading"), "handle")

	b.do(t, chromedp.Navigate(address+"2/"))
	waitForFlame(t, b)
	near(t, framesOf(t, b, "main"), map[string]float64{"main": 1, "hot": 0.9, "cold": 0.1})
	b.allowDownloads(t, dir)
	b.do(t, chromedp.Click(chromedp.CSS(`a[href="download?format=speedscope"]`)))
	testkit.Eventually(t, "the file is there", func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "other.speedscope.json"))
		return err == nil && strings.Contains(string(data), `"cold"`)
	})

	require.NoError(t, os.WriteFile(other, []byte("main;hot 90\nmain;colder 270\n"), 0o600))
	b.waits(t, "the changed file is shown", `document.querySelector(".top tbody")?.textContent.includes("colder")`)
	painted(t, b)
	near(t, framesOf(t, b, "main"), map[string]float64{"main": 1, "hot": 0.25, "colder": 0.75})
	b.checkComplaints(t, strings.TrimSuffix(address, "/"))

	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait())
}

// startServe starts headwater serve, and returns the address of its page.
func startServe(t *testing.T, files ...string) (address string, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command(rig.Binary(t), append([]string{"serve", "--listen", "127.0.0.1:0"}, files...)...)
	out, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NotEmpty(t, strings.Fields(line), fmt.Sprintf("headwater serve says %q", line))
	return strings.Fields(line)[0], cmd
}
