package clock

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit/need"
)

// inNamespace has this test, run again in another time namespace, print the time.
const inNamespace = "HEADWATER_TEST_PRINTS_TIME"

// TestTimeNamespace: in a time namespace whose clock is a day ahead, Monotonic returns the time of the host's clock.
func TestTimeNamespace(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		fmt.Println("time", Monotonic())
		return
	}
	need.Root(t)
	need.Tools(t, "unshare")
	var before, after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--time", "--monotonic", fmt.Sprint(24*60*60), "--fork",
		os.Args[0], "-test.run", "^TestTimeNamespace$")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("unshare: %v\n%s", err, out)
	}
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &after); err != nil {
		t.Fatal(err)
	}
	var seen int64
	if _, err := fmt.Sscanf(string(out), "time %d", &seen); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if seen < before.Nano() || seen > after.Nano() {
		t.Errorf("the time in the namespace is %v from that of before", time.Duration(seen-before.Nano()))
	}
}
