package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// TestDocker profiles containers of a real Docker daemon by what discovery.docker
// finds out about them: their names and labels are labels in Pyroscope. One is
// there before, one comes, one goes, and one is left out by a rule.
func TestDocker(t *testing.T) { trial.Run(t, tryDocker) }

func tryDocker(t *trial.T) {
	requireRoot(t)
	if trouble := runcTrouble(); trouble != "" {
		t.Logf("Docker is not tried, for runc does not run here: %s", trouble)
		return
	}
	d := startDocker(t)
	shapes := []containerShape{{name: "whale"}, {name: "squid"}, {name: "otter"}}
	boxes := makeBoxes(t, shapes)
	for i, shape := range shapes {
		d.build(t, shape.name, boxes[i])
	}
	d.run(t, "whale", boxes[0], "profile=yes", "team=sea")
	left := d.run(t, "otter", boxes[2])

	server := startPyroscope(t)
	h := startHeadwater(t, dockerConfig(d, server))
	check := func(i int) {
		var all []stack
		eventually(t, 3*time.Minute, "1 s of "+shapes[i].name+" is in Pyroscope", func() bool {
			all = stacks(server.profile(t, cpuProfile, fmt.Sprintf(`{service_name=%q, team="sea"}`, shapes[i].name), time.Time{}))
			return total(ofCommand(all, "app")) >= 1e9
		})
		shapes[i].check(t, all, boxes[i])
	}
	check(0)
	d.run(t, "squid", boxes[1], "profile=yes", "team=sea")
	check(1)

	out, err := exec.Command(headwaterBinary(t), "targets", h.config).CombinedOutput()
	if err != nil {
		t.Errorf("headwater targets: %v", err)
	}
	for _, want := range []string{`service_name="whale", team="sea"} by __meta_docker_container_id`, left[:12] + `  dropped by rule 1 of discovery.relabel.local (keep`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("headwater targets does not say %q:\n%s", want, out)
		}
	}
	waitHealth(t, h, "pyroscope.ebpf.local", "healthy", "profiling 2 targets")
	d.docker(t, "kill", "whale")
	waitHealth(t, h, "pyroscope.ebpf.local", "healthy", "profiling 1 target")
	if got := strings.Join(server.labelValues(t, "service_name"), " "); got != "squid whale" {
		t.Errorf("services in Pyroscope: %s", got)
	}
	h.stop(t)
}

func dockerConfig(d *dockerDaemon, server *pyroscope) string {
	return fmt.Sprintf(`
discovery.docker "local" {
	host             = %q
	refresh_interval = "1s"
}

discovery.relabel "local" {
	targets = discovery.docker.local.targets
	rule {
		source_labels = ["__meta_docker_container_label_profile"]
		regex         = "yes"
		action        = "keep"
	}
	rule {
		source_labels = ["__meta_docker_container_name"]
		regex         = "/(.*)"
		target_label  = "service_name"
	}
	rule {
		source_labels = ["__meta_docker_container_label_team"]
		target_label  = "team"
	}
}

pyroscope.ebpf "local" {
	targets          = discovery.relabel.local.output
	forward_to       = [pyroscope.write.server.receiver]
	collect_interval = "1s"
}

pyroscope.write "server" {
	endpoint {
		url = %q
	}
}
`, d.host, server.url)
}

// dockerDaemon is a running dockerd with storage of its own.
type dockerDaemon struct {
	*process
	folder string // of its programs
	host   string // unix://PATH
}

// startDocker starts a daemon that leaves the network of this host alone.
func startDocker(t testing.TB) *dockerDaemon {
	t.Helper()
	unpack := exec.Command("docker/unpack")
	unpack.Stderr = os.Stderr
	folder, err := unpack.Output()
	if err != nil {
		missing(t, "integration/docker/unpack: %v", err)
	}
	dir := t.TempDir()
	d := &dockerDaemon{folder: strings.TrimSpace(string(folder)), host: "unix://" + filepath.Join(dir, "sock")}
	cmd := d.command("dockerd", "--host="+d.host, "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs", "--cgroup-parent="+cgroupRoot()+"/docker",
		"--data-root="+filepath.Join(dir, "data"), "--exec-root="+filepath.Join(dir, "exec"), "--pidfile="+filepath.Join(dir, "pid"))
	t.Cleanup(func() { removeCgroups(t) })
	d.process = start(t, cmd)
	t.Cleanup(func() { // it ends its containers and its containerd
		if names := strings.Fields(d.docker(t, "ps", "--quiet")); len(names) > 0 {
			d.docker(t, append([]string{"kill"}, names...)...)
		}
		d.signal(t, syscall.SIGTERM)
		d.wait(t, time.Minute)
	})
	eventually(t, time.Minute, "dockerd is ready", func() bool {
		if d.ended() {
			t.Fatalf("dockerd has ended: %v\n%s", d.err, d.output.tail(20))
		}
		return d.command("docker", "--host="+d.host, "version").Run() == nil
	})
	return d
}

// command is one of Docker's programs, which finds the others.
func (d *dockerDaemon) command(name string, args ...string) *exec.Cmd {
	programs := []string{filepath.Join(d.folder, "usr/sbin"), filepath.Join(d.folder, "usr/bin")}
	cmd := exec.Command("env", append([]string{"PATH=" + strings.Join(programs, ":") + ":" + os.Getenv("PATH"), name}, args...)...)
	return cmd
}

// docker runs the docker command and returns what it prints.
func (d *dockerDaemon) docker(t testing.TB, args ...string) string {
	t.Helper()
	out, err := d.command("docker", append([]string{"--host=" + d.host}, args...)...).Output()
	if err != nil {
		t.Fatalf("docker %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// build makes a Docker image of a box's image and layer.
func (d *dockerDaemon) build(t testing.TB, name string, b box) {
	t.Helper()
	script := `cp -r "$0" "$1" && cp -r "$2/." "$1$3" && tar -C "$1" -c . | docker --host="$4" import - "$5"`
	cmd := d.command("sh", "-ec", script, b.image, filepath.Join(t.TempDir(), "image"), b.layer, b.mount, d.host, name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
}

// run starts a container of the image of its name and returns its ID.
func (d *dockerDaemon) run(t testing.TB, name string, b box, labels ...string) string {
	t.Helper()
	args := []string{"run", "--detach", "--rm", "--network=none", "--name=" + name}
	for _, label := range labels {
		args = append(args, "--label="+label)
	}
	return d.docker(t, append(append(args, name), b.args...)...)
}
