package page

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// shopScript is a Python program whose functions call each other and the C library.
const shopScript = `import json, re, time, zlib
def parse(text): return [json.loads(line) for line in text.splitlines()]
def find(orders): return [o for o in orders if re.search(r"(a+b|c)+d", o["name"])]
def total(orders): return sum(o["price"] * o["count"] for o in orders)
def pack(orders): return zlib.compress(json.dumps(orders).encode())
def handle(text):
    orders = parse(text)
    return total(find(orders)), pack(orders)
text = "\n".join(json.dumps({"name": "aaab" * (i % 9) + "cd", "price": i, "count": 2}) for i in range(300))
end = time.time() + 6
while time.time() < end: handle(text)
`

// TestPictures makes the pictures of docs/flame-graphs.md in the folder that HEADWATER_PICTURES names: of a recording
// of a C++ program and a Python program, and of a comparison of made profiles.
func TestPictures(t *testing.T) {
	out := os.Getenv("HEADWATER_PICTURES")
	if out == "" {
		t.Skip("make -C integration pictures makes them")
	}
	need.Root(t)
	t.Setenv("HEADWATER_SCREENSHOTS", out)
	dir := t.TempDir()
	rig.Compile(t, "g++", "-O2", "-o", filepath.Join(dir, "orders"), "../tools/testdata/work.cpp")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.py"), []byte(shopScript), 0o644))
	cmd := exec.Command(rig.Binary(t), "record", "-q", "-F", "499", "-o", "shop.html", "--",
		"sh", "-c", "./orders 6000 & python3 shop.py & wait")
	cmd.Dir = dir
	message, err := cmd.CombinedOutput()
	require.NoError(t, err, string(message))

	b := openBrowser(t)
	show := func(name string, width, height int64, theme, state string) {
		b.prefers(t, theme)
		address := url.URL{Scheme: "file", Path: filepath.Join(dir, "shop.html"), Fragment: state}
		b.do(t, chromedp.EmulateViewport(width, height), chromedp.Navigate("about:blank"),
			chromedp.Navigate(address.String()))
		waitForFlame(t, b)
		b.screenshot(t, name)
	}
	show("flame-light", 1280, 860, "light", "")
	show("flame-dark", 1280, 860, "dark", "mode=flame&color=binary")
	show("flame-sandwich", 1280, 860, "light", "mode=sandwich&function=handle")
	show("flame-tree", 1280, 560, "light", "mode=tree")
	show("flame-phone", 390, 760, "light", "")

	s := newShop(t)
	b.do(t, chromedp.EmulateViewport(1280, 760), chromedp.Navigate(s.server.URL+"/profiler/"))
	h := &hand{t: t, b: b}
	h.opens()
	h.drags(0.5, 1, 0)
	h.drags(0.5, 0, 8)
	b.screenshot(t, "flame-diff")
}

// TestPicturesOfAgent makes the pictures of docs/reference/measurements.md in the folder that HEADWATER_PICTURES names:
// of the recordings of the agent that bench -parts -keep has written to the folder HEADWATER_RECORDINGS, and what
// differs.
func TestPicturesOfAgent(t *testing.T) {
	out, recordings := os.Getenv("HEADWATER_PICTURES"), os.Getenv("HEADWATER_RECORDINGS")
	if out == "" || recordings == "" {
		t.Skip("make -C integration bench-parts RECORD=1 makes them")
	}
	t.Setenv("HEADWATER_SCREENSHOTS", out)
	rig.Binary(t) // is built before the folder changes
	dir := t.TempDir()
	for _, name := range []string{"before.pb.gz", "now.pb.gz"} {
		data, err := os.ReadFile(filepath.Join(recordings, "clang -O2 on each CPU."+name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	t.Chdir(dir) // pages are named by their files
	message, err := exec.Command(rig.Binary(t), "diff", "before.pb.gz", "now.pb.gz", "-o", "diff.html").CombinedOutput()
	require.NoError(t, err, string(message))
	t.Logf("%s", message)
	address, _ := startServe(t, "before.pb.gz", "now.pb.gz")

	b := openBrowser(t)
	show := func(name, page string) {
		b.do(t, chromedp.EmulateViewport(1280, 860), chromedp.Navigate(page+"#mode=flame"))
		waitForFlame(t, b)
		b.screenshot(t, name)
	}
	show("agent-before", address+"1/")
	show("agent-now", address+"2/")
	show("agent-diff", (&url.URL{Scheme: "file", Path: filepath.Join(dir, "diff.html")}).String())
}
