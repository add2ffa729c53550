package delivery

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// targetsConfig has the processes of some programs as targets, by program name, and one target for all other processes.
const targetsConfig = `
discovery.process "all" {
	refresh_interval = "%[2]s"
}

discovery.relabel "services" {
	targets = discovery.process.all.targets

	rule {
		source_labels = ["__meta_process_exe"]
		regex         = ".*/(hw-[a-z]+-%[4]s)"
		target_label  = "service_name"
	}

	rule {
		source_labels = ["service_name"]
		regex         = "hw-.*"
		action        = "keep"
	}
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	targets          = discovery.relabel.services.output
	targets_only     = false
	default_target   = {"service_name" = "%[3]s"}
	collect_interval = "2s"
	sample_rate      = 199
}

pyroscope.write "server" {
	endpoint {
		url            = "%[1]s"
		remote_timeout = "2m"
	}
}
`

// service is a program of a name of its own.
type service struct {
	name, path string
	stdin      io.WriteCloser
	out        *bufio.Reader
	pid        int
}

// group is the programs of a test, whose names and functions no other test's programs have: all run at the same time.
type group string

func newGroup() group { return group(fmt.Sprint(time.Now().UnixNano())) }

func (g group) inChild() string   { return "in_child_" + string(g) }
func (g group) inProgram() string { return "in_program_" + string(g) }
func (g group) rest() string      { return "rest-" + string(g) }

// agent profiles this host with the group's processes as targets.
func (g group) agent(t *testing.T, server *rig.Pyroscope, refresh string) *rig.Headwater {
	return rig.StartPrioritized(t, fmt.Sprintf(targetsConfig, server.URL, refresh, g.rest(), g))
}

func (g group) service(t *testing.T, role string) *service {
	need.Root(t)
	s := &service{name: fmt.Sprintf("hw-%s-%s", role, g)}
	s.path = filepath.Join(t.TempDir(), s.name)
	rig.Compile(t, "gcc", "-O1", "-g", "-Din_child="+g.inChild(), "-Din_program="+g.inProgram(), "-o", s.path,
		"testdata/serves.c")
	return s
}

func (s *service) start(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command(s.path, args...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	s.stdin, s.out, s.pid = stdin, bufio.NewReader(stdout), cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, or waited for by the test
	})
	return cmd
}

// serve starts a program that waits for a line, and returns the CPU time that it reports.
func (s *service) serve(t *testing.T) time.Duration {
	_, err := io.WriteString(s.stdin, "x")
	require.NoError(t, err)
	return s.said(t)
}

func (s *service) said(t *testing.T) time.Duration {
	line, err := s.out.ReadString('\n')
	require.NoError(t, err)
	ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	require.NoError(t, err)
	return time.Duration(ns)
}

// discovered waits until the profiler uses processes as its targets. The debug info lists a target earlier.
func discovered(t *testing.T, agent *rig.Headwater, pids ...int) {
	for _, pid := range pids {
		testkit.Eventually(t, "the process is discovered", func() bool {
			_, text := agent.Get(t, "/api/v0/web/components/pyroscope.ebpf.host")
			return strings.Contains(text, fmt.Sprintf(`__process_pid__=\"%d\"`, pid)) ||
				strings.Contains(text, fmt.Sprintf(`__process_pid__=\\\"%d\\\"`, pid))
		})
	}
	profiling := fmt.Sprintf("profiling %d target", len(pids))
	testkit.Eventually(t, "the profiler has the targets", func() bool {
		return strings.Contains(agent.Component(t, "pyroscope.ebpf.host").Message, profiling)
	})
}

// timeOf returns the CPU time that Pyroscope has of a function under a service.
func timeOf(t *testing.T, server *rig.Pyroscope, service, function string) time.Duration {
	return time.Duration(ofFunction(server.Profile(t, rig.CPUProfile, fmt.Sprintf("{service_name=%q}", service),
		time.Time{}), function))
}

// TestChildrenOfTargets: in Pyroscope, the time of processes forked by a discovered process belongs to its target,
// whether or not discovery finds the children; processes that execute another program have the default target.
func TestChildrenOfTargets(t *testing.T) {
	t.Parallel()
	server := sharedPyroscope(t)
	for _, refresh := range []string{"1h", "1s"} {
		t.Run(refresh, func(t *testing.T) {
			if refresh == "1s" {
				testkit.Nightly(t, "differs from the other by the refresh")
			}
			g := newGroup()
			serves, execs, other := g.service(t, "serves"), g.service(t, "execs"), g.service(t, "other")
			serves.start(t, "serve", "12", "250")
			execs.start(t, "exec", other.path, "1500")
			agent := g.agent(t, server, refresh)
			discovered(t, agent, serves.pid, execs.pid)

			want := serves.serve(t)
			execs.serve(t)
			var got time.Duration
			testkit.Eventually(t, "the children's time is in Pyroscope", func() bool {
				got = timeOf(t, server, serves.name, g.inChild())
				return got >= want*8/10
			})
			if got > want*12/10 {
				t.Errorf("Pyroscope has %v, they have used %v", got, want)
			}
			agent.Stop(t) // sends all
			// One of the twelve may be forked before the discovered targets take effect.
			if lost := timeOf(t, server, g.rest(), g.inChild()); lost > want/10 {
				t.Errorf("%v of %v is that of the default target", lost, want)
			}
			require.NotZero(t, timeOf(t, server, execs.name, g.inChild()), "until it executes a program")
			require.Zero(t, timeOf(t, server, execs.name, g.inProgram()), "after that")
			of := timeOf(t, server, g.rest(), g.inProgram()) + timeOf(t, server, other.name, g.inProgram())
			require.InDelta(t, 1.5, of.Seconds(), 0.5, "of the other program")
			if refresh == "1h" {
				require.Zero(t, timeOf(t, server, other.name, g.inProgram()), "it was never discovered")
			}
		})
	}
}

// TestPIDOfTargetUsedAgain: a process that has the PID of a discovered one is never that target in Pyroscope, and has
// its own once it is discovered.
func TestPIDOfTargetUsedAgain(t *testing.T) {
	t.Parallel()
	server := sharedPyroscope(t)
	g := newGroup()
	first, second, starter := g.service(t, "first"), g.service(t, "second"), g.service(t, "starter")
	cmd := first.start(t, "serve", "0", "0")
	agent := g.agent(t, server, "3s")
	discovered(t, agent, first.pid)
	pid := first.pid
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it says that it was killed

	out, err := exec.Command(starter.path, "as", strconv.Itoa(pid), second.path, "6000").CombinedOutput()
	require.NoError(t, err, "%s", out)
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	require.NoError(t, err)
	used := time.Duration(ns)
	agent.Stop(t) // sends all
	var own, unknown time.Duration
	testkit.Eventually(t, "its time is in Pyroscope", func() bool {
		own, unknown = timeOf(t, server, second.name, g.inProgram()), timeOf(t, server, g.rest(), g.inProgram())
		return own+unknown >= used*8/10
	})
	t.Logf("%v of %v under its own target, %v before it was discovered", own, used, unknown)
	require.Zero(t, timeOf(t, server, first.name, g.inProgram()), "under the target of the process that had its PID")
	require.Greater(t, own, used/4, "discovered after 3 s at most")
	require.LessOrEqual(t, own+unknown, used*12/10)
}
