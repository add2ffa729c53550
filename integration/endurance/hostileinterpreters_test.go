package endurance

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/need"
)

// scribblers are what testdata/interpreters/python.c does to the frames that it keeps.
var scribblers = []string{"codes", "cycle", "nowhere", "places"}

// goodPython is a program whose functions have to have their names.
const goodPython = `
import time
def good_leaf(n):
    return sum(i * i for i in range(n))
def good_caller():
    while True:
        good_leaf(20000)
        time.sleep(0.005)
good_caller()
`

// TestHostileInterpreters has processes that seem to be CPython, and write nonsense to the frames that are read of
// them, faster than that is done. Others have their profiles and names in time.
func TestHostileInterpreters(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc", "python3")
	if runtime.GOARCH != "amd64" {
		t.Skip("functions of Python are not named here")
	}
	const interval, length = 4 * time.Second, 32 * time.Second
	dir := lab.PublicDir(t)
	for _, mode := range scribblers {
		program := filepath.Join(dir, "hw"+mode)
		lab.Compile(t, "gcc", "-O2", "-Wall", "-Wextra", "-rdynamic", "-o", program,
			"testdata/interpreters/python.c", "-lpthread")
		startAsNobody(t, "/", program, mode)
	}
	lab.Start(t, exec.Command("python3", "-c", goodPython))
	received := lab.StartReceiver(t)
	config := strings.Replace(lab.HostConfig(received.URL, "hostile", ""), `"2s"`, fmt.Sprintf("%q", interval), 1)
	h := lab.StartHeadwater(t, config)
	lab.Eventually(t, time.Minute, "a profile", func() bool { return len(received.Profiles("hostile")) > 0 })
	from := time.Now()
	rounds := len(received.Profiles("hostile"))
	most := watch(t, h, length, hostileRSS+process.MaxRemembered>>10)
	profiles := received.Profiles("hostile")[rounds:]
	elapsed := time.Since(from)

	m := h.Metrics(t)
	const frames = "pyroscope_ebpf_interpreter_frames"
	t.Logf("%d profiles in %v, %v, %.0f frames with a name, %.0f without", len(profiles),
		elapsed.Round(time.Millisecond), most, m.Sum(t, frames+"_total"), m.Sum(t, frames+"_unnamed_total"))
	if want := int(elapsed/interval) - 2; len(profiles) < want {
		t.Errorf("%d profiles in %v, want %d", len(profiles), elapsed, want)
	}
	if n := m.Sum(t, "pyroscope_ebpf_overdue_rounds_total"); n > 0 {
		t.Errorf("%v rounds were overdue", n)
	}
	for i, p := range profiles {
		good := 0
		for _, s := range lab.Stacks(p) {
			if s.Has("good_caller") {
				good++
			}
		}
		if good == 0 {
			t.Errorf("profile %d of %d lacks the functions of the good program", i, len(profiles))
		}
	}
	var all []lab.Stack
	for _, p := range profiles {
		all = append(all, lab.Stacks(p)...)
	}
	for _, mode := range scribblers {
		if len(lab.OfCommand(all, "hw"+mode)) == 0 {
			t.Errorf("hw%s was not sampled", mode)
		}
	}
	for _, s := range lab.OfCommand(all, "python3") {
		for _, name := range s.Names() {
			if strings.HasPrefix(name, "abcdefgh") {
				t.Errorf("the good program has names of another: %v", s)
			}
		}
	}
}
