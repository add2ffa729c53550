package tools

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/rig"
)

// testRecordedGroups: a recording of a control group, of a container and of a systemd unit has the samples of the
// process in it and no other's.
func testRecordedGroups(t *testing.T) {
	const id = "4f1c0d0a7be94c0e9d8f3fb1f5f0f1ce2b8d4a6c1e0f9a8b7c6d5e4f3a2b1c0d"
	for group, program := range map[string]string{
		"docker-" + id + ".scope": "hwbox", "system.slice/hwshop.service": "hwshop", "elsewhere": "hwother",
	} {
		rig.StartInCgroup(t, group, exec.Command(chain(t, program), "600")).WaitBusy(t)
	}
	for _, test := range []struct{ flag, value, binary string }{
		{"--cgroup", rig.CgroupRoot() + "/elsewhere", "hwother"},
		{"--container", id[:12], "hwbox"},
		{"--unit", "hwshop", "hwshop"},
		{"--unit", "hwshop.service", "hwshop"},
	} {
		t.Run(strings.TrimLeft(test.flag, "-")+"="+test.value, func(t *testing.T) {
			folder, _ := recordSamples(t, 100, test.flag, test.value, "-F", "199", "-o", "out.pb.gz")
			p := readProfile(t, folder, "out.pb.gz")
			requireChain(t, rig.Stacks(p))
			programs := []string{}
			for _, m := range p.Mapping {
				if name := filepath.Base(m.File); strings.HasPrefix(name, "hw") {
					programs = append(programs, name)
				}
			}
			require.Equal(t, []string{test.binary}, programs)
		})
	}
	for flag, message := range map[string]string{
		"--cgroup":    "has no process",
		"--unit":      `the systemd unit "nowhere" has no process`,
		"--container": "nowhere",
	} {
		_, _, errs, code := record(t, flag, "nowhere", "-d", "2")
		require.Equal(t, 2, code)
		require.Contains(t, errs, message)
	}
}
