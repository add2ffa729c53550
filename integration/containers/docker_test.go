package containers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestDocker profiles containers of a real Docker daemon by discovery.docker. Their names and
// labels are labels in Pyroscope. One container exists before, one comes, one goes, and a
// rule leaves one out.
func TestDocker(t *testing.T) {
	testkit.Nightly(t, "an engine of its own takes two minutes; TestContainers runs containers by runc")
	need.Root(t)
	need.Tools(t, "runc")
	if trouble := runcTrouble(); trouble != "" {
		t.Skipf("runc runs no container on this machine: %s", trouble)
	}
	d := startDocker(t)
	shapes := []containerShape{{name: "whale"}, {name: "squid"}, {name: "otter"}}
	boxes := makeBoxes(t, shapes)
	for i, shape := range shapes {
		d.build(t, shape.name, boxes[i])
	}
	d.run(t, "whale", boxes[0], "profile=yes", "team=sea")
	left := d.run(t, "otter", boxes[2])

	server := rig.StartPyroscope(t)
	h := rig.StartHeadwater(t, dockerConfig(d, server))
	check := func(i int) {
		var all []rig.Stack
		testkit.Eventually(t, "1 s of "+shapes[i].name+" is in Pyroscope", func() bool {
			all = rig.Stacks(server.Profile(t, rig.CPUProfile, fmt.Sprintf(`{service_name=%q, team="sea"}`, shapes[i].name),
				time.Time{}))
			return rig.Total(rig.OfCommand(all, "app")) >= 1e9
		})

		shapes[i].check(t, all, boxes[i])
	}
	check(0)
	d.run(t, "squid", boxes[1], "profile=yes", "team=sea")
	check(1)

	out, err := exec.Command(rig.Binary(t), "targets", h.Config).CombinedOutput()
	if err != nil {
		t.Errorf("headwater targets: %v", err)
	}
	for _, want := range []string{`service_name="whale", team="sea"} by __meta_docker_container_id`,
		left[:12] + `  dropped by rule 1 of discovery.relabel.local (keep`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("headwater targets does not say %q:\n%s", want, out)
		}
	}
	waitHealth(t, h, "pyroscope.ebpf.local", "healthy", "profiling 2 targets")
	d.docker(t, "kill", "whale")
	waitHealth(t, h, "pyroscope.ebpf.local", "healthy", "profiling 1 target")
	if got := strings.Join(server.LabelValues(t, "service_name"), " "); got != "squid whale" {
		t.Errorf("services in Pyroscope: %s", got)
	}
	h.Stop(t)
}

func dockerConfig(d *dockerDaemon, server *rig.Pyroscope) string {
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
`, d.host, server.URL)
}

// dockerDaemon is a running dockerd with storage of its own.
type dockerDaemon struct {
	*rig.Process
	folder string // of its programs
	host   string // unix://PATH
}

// startDocker starts a daemon that does not change the network of this host.
func startDocker(t testing.TB) *dockerDaemon {
	t.Helper()
	unpack := exec.Command("../docker/unpack")
	unpack.Stderr = os.Stderr
	folder, err := unpack.Output()
	if err != nil {
		need.Missing(t, "integration/docker/unpack: %v", err)
	}
	dir := t.TempDir()
	d := &dockerDaemon{folder: strings.TrimSpace(string(folder)), host: "unix://" + filepath.Join(dir, "sock")}
	cmd := d.command("dockerd", "--host="+d.host, "--iptables=false", "--ip6tables=false", "--bridge=none",
		"--storage-driver=vfs", "--cgroup-parent="+rig.CgroupRoot()+"/docker",
		"--data-root="+filepath.Join(dir, "data"), "--exec-root="+filepath.Join(dir, "exec"),
		"--pidfile="+filepath.Join(dir, "pid"))
	t.Cleanup(func() { rig.RemoveCgroups(t) })
	d.Process = rig.Start(t, cmd)
	t.Cleanup(func() { // it ends its containers and its containerd
		if names := strings.Fields(d.docker(t, "ps", "--quiet")); len(names) > 0 {
			d.docker(t, append([]string{"kill"}, names...)...)
		}
		d.Signal(t, syscall.SIGTERM)
		d.Wait(t, time.Minute)
	})
	testkit.Eventually(t, "dockerd is ready", func() bool {
		if d.Ended() {
			t.Fatalf("dockerd has ended: %v\n%s", d.Err, d.Output.Tail(20))
		}
		return d.command("docker", "--host="+d.host, "version").Run() == nil
	})

	return d
}

// command returns one of Docker's programs, with the PATH that it needs to find the other programs.
func (d *dockerDaemon) command(name string, args ...string) *exec.Cmd {
	programs := []string{filepath.Join(d.folder, "usr/sbin"), filepath.Join(d.folder, "usr/bin")}
	cmd := exec.Command("env", append([]string{"PATH=" + strings.Join(programs, ":") + ":" + os.Getenv("PATH"), name},
		args...)...)
	return cmd
}

// docker runs the docker command and returns its output.
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
