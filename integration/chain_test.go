package integration

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// hostConfig profiles the whole host every two seconds and sends it to a
// server. extra is added to the pyroscope.ebpf block.
func hostConfig(server, service, extra string) string {
	return fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url = %q
	}
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	targets_only     = false
	default_target   = {"service_name" = %q}
	collect_interval = "2s"
	sample_rate      = 97
	%s
}
`, server, service, extra)
}

// TestChain profiles a program without frame pointers whose stack goes
// through 60 functions, a shared library and a callback of libc's qsort: their
// names in every sample, in order, none left out.
func TestChain(t *testing.T) { trial.Run(t, tryChain) }

func tryChain(t *trial.T) {
	requireRoot(t)
	server := startPyroscope(t)

	early := chainProgram(t, "hwchain-early")
	startChain(t, early, 60)
	startHeadwater(t, hostConfig(server.url, "chain", ""))
	late := chainProgram(t, "hwchain-late")
	startChain(t, late, 60)

	for name, program := range map[string]string{"started before the profiler": early, "started after": late} {
		t.Run(name, func(t *trial.T) { checkChain(t, server, program) })
	}
}

// checkChain waits for four seconds of CPU of the chain in the server, and
// judges each of its stacks.
func checkChain(t testing.TB, server *pyroscope, program string) {
	var all []stack
	eventually(t, 40*time.Second, "4 s of the chain are in Pyroscope", func() bool {
		p := server.profile(t, cpuProfile, `{service_name="chain"}`, time.Time{})
		all = ofCommand(stacks(p), filepath.Base(program))
		return total(all) >= 4e9
	})
	inChain, complete := int64(0), int64(0)
	for _, s := range all {
		last, err := chainDepth(s)
		if err != nil {
			t.Errorf("%v in %v", err, s)
		}
		if last >= 0 {
			inChain += s.value
		}
		if last == 59 {
			complete += s.value
		}
	}
	t.Logf("%d ms, %d ms in the chain, %d ms to its end", total(all)/1e6, inChain/1e6, complete/1e6)
	if share := float64(inChain) / float64(total(all)); share < 0.98 {
		t.Errorf("only %.4f of the program's time is in the chain:\n%s", share, show(all, 5))
	}
	if share := float64(complete) / float64(inChain); share < 0.98 {
		t.Errorf("only %.4f of the chain's time is below f59:\n%s", share, show(all, 5))
	}
	checkMappings(t, all, program)
}

var chainName = regexp.MustCompile(`^f[0-5][0-9]$`)

// chainDepth returns the number of the last function of the chain on a
// stack, -1 outside the chain, and an error if one before it is missing, or
// stands in the wrong place, or the chain does not hang from main.
func chainDepth(s stack) (int, error) {
	last := -1
	for i, f := range s.frames {
		if !chainName.MatchString(f.name) {
			continue
		}
		if want := fmt.Sprintf("f%02d", last+1); f.name != want {
			return last, fmt.Errorf("%s where %s is due", f.name, want)
		}
		last++
		switch {
		case last == 0 && (i == 0 || s.frames[i-1].name != "main"):
			return last, fmt.Errorf("f00 is not called by main")
		case last == 40 && !strings.Contains(s.frames[i-1].file, "libc.so"):
			return last, fmt.Errorf("f40 is not called by libc")
		case last != 0 && last != 40 && s.frames[i-1].name != fmt.Sprintf("f%02d", last-1):
			return last, fmt.Errorf("something stands between f%02d and f%02d", last-1, last)
		}
	}
	return last, nil
}

// checkMappings compares file and build ID of the frames with the files.
func checkMappings(t testing.TB, all []stack, program string) {
	t.Helper()
	library := filepath.Join(filepath.Dir(program), "libchain.so")
	want := map[string]frame{
		"f00": {"f00", program, buildID(t, program)},
		"f59": {"f59", program, buildID(t, program)},
		"f20": {"f20", library, buildID(t, library)},
		"f39": {"f39", library, buildID(t, library)},
	}
	wrong := map[frame]bool{}
	for _, s := range all {
		for _, f := range s.frames {
			if w, ok := want[f.name]; ok && f != w && !wrong[f] {
				wrong[f] = true
				t.Errorf("frame %+v, want %+v", f, w)
			}
		}
	}
}
