package containers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// containerShape describes how one kind of runtime names its containers, and how a target names such a container.
type containerShape struct {
	name     string // five letters, the prefix of the functions of the container's program
	cgroup   string // ID stands for the container's ID
	target   string // a River object
	service  string // the service name that Pyroscope must have; "" for none
	why      string // the reason that `headwater targets` gives for its process
	bare     bool   // only in the unified hierarchy, as without cgroup v1
	stripped bool   // its symbols are in a debug file of the image
	jit      bool   // its innermost function is made while it runs, and named in a perf map of its own /tmp
	late     bool   // started while the profiler runs
}

// containerShapes are the paths that Docker, containerd, CRI-O, podman, systemd and
// the kubelet make, with each label that a target can name a container by.
var containerShapes = []containerShape{
	{name: "alpha", cgroup: "/docker/ID", bare: true,
		target:  `{"__meta_docker_container_id" = "ID", "__meta_docker_container_name" = "/alpha", "shape" = "alpha"}`,
		service: "/alpha", why: "by __meta_docker_container_id"},
	{name: "bravo", cgroup: "/system.slice/docker-ID.scope", late: true,
		target:  `{"__container_id__" = "ID", "service_name" = "bravo", "shape" = "bravo"}`,
		service: "bravo", why: "by __container_id__"},
	{name: "delta", jit: true,
		cgroup: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a2b_3c.slice/cri-containerd-ID.scope",
		target: `{"__meta_kubernetes_pod_container_id" = "containerd://ID", "__meta_kubernetes_namespace" = "shop",
			"__meta_kubernetes_pod_container_name" = "delta", "shape" = "delta"}`,
		service: "ebpf/shop/delta", why: "by __meta_kubernetes_pod_container_id"},
	{name: "gamma", cgroup: "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod4d5e_6f.slice/crio-ID.scope",
		stripped: true,
		target:   `{"__meta_kubernetes_pod_container_id" = "cri-o://ID", "service_name" = "gamma", "shape" = "gamma"}`,
		service:  "gamma", why: "by __meta_kubernetes_pod_container_id"},
	{name: "kappa", cgroup: "/kubepods/pod7a8b-9c/ID", bare: true,
		target:  `{"__meta_kubernetes_pod_container_id" = "docker://ID", "service_name" = "kappa", "shape" = "kappa"}`,
		service: "kappa", why: "by __meta_kubernetes_pod_container_id"},
	{name: "sigma", cgroup: "/machine.slice/libpod-ID.scope/container",
		target:  `{"__container_id__" = "ID", "service_name" = "sigma", "shape" = "sigma"}`,
		service: "sigma", why: "by __container_id__"},
	{name: "theta", cgroup: "/system.slice/containerd.service/kubepods-burstable-podaa_bb.slice:cri-containerd:ID",
		target:  `{"__meta_dockerswarm_task_container_id" = "ID", "service_name" = "theta", "shape" = "theta"}`,
		service: "theta", why: "by __meta_dockerswarm_task_container_id"},

	{name: "omega", cgroup: "/docker/ID", target: `{"__container_id__" = "ID", "service_name" = "omega", "drop" = "yes"}`,
		why: `dropped by rule 1 of discovery.relabel.containers (drop [drop] regex "yes")`},
	{name: "lemma", cgroup: "/system.slice/cri-containerd-ID.scope",
		why: "no target names its container: not profiled"},
	{name: "nabla", cgroup: "/user.slice/session-1.scope", bare: true, why: "no container ID in its cgroup "},
}

// TestContainers profiles containers by the labels of their targets. Each has whole stacks
// and the names of its own files, although other containers and this host have another
// program with the same code under the same path. Containers without a target are not in
// Pyroscope. Headwater runs on the host, and then in a container of its own.
func TestContainers(t *testing.T) {
	need.Root(t)
	boxes := makeBoxes(t, containerShapes)
	running := make([]*container, len(boxes)) // as containerShapes
	startAll := func(t testing.TB, late bool) {
		for i, shape := range containerShapes {
			if shape.late == late {
				running[i] = shape.start(t, boxes[i])
			}
		}
	}
	startAll(t, false)
	rig.StartChain(t, filepath.Join(boxes[0].mount, "app"), 600) // the host's own, outside

	// Both profile the containers at the same time.
	hosts := []struct {
		name    string
		prepare func(*exec.Cmd)
		server  *rig.Pyroscope
		running *rig.Headwater
	}{{name: "on the host"}, {name: "in a container", prepare: inContainer(t)}}
	if trouble := runcTrouble(); trouble != "" {
		t.Logf("runc does not run here: containers are made of cgroups, namespaces and chroot, "+
			"and Headwater is not tried in one: %s", trouble)
		hosts = hosts[:1]
	}
	for i := range hosts {
		host := &hosts[i]
		host.server = rig.StartPyroscope(t)
		host.running = rig.LaunchHeadwater(t, containersConfig(host.server, boxes), host.prepare)
		host.running.WaitReady(t)
	}
	startAll(t, true)
	for _, host := range hosts {
		t.Run(host.name, func(t *testing.T) {
			checkContainers(t, host.server, boxes)
			if host.prepare == nil {
				checkExplained(t, host.running, running)
			}
			host.running.Stop(t)
		})
	}
}

// TestContainersToCome has targets before their containers exist. The health says that no process matches, until a
// container starts, and again after it has ended.
func TestContainersToCome(t *testing.T) {
	testkit.Nightly(t, "TestContainers starts containers while it profiles")
	need.Root(t)
	boxes := makeBoxes(t, containerShapes)
	server := rig.StartPyroscope(t)
	h := rig.StartHeadwater(t, containersConfig(server, boxes))
	none := "7 targets, but no running process matches; " +
		"the debug info and headwater targets list the reason for each process"
	waitHealth(t, h, "pyroscope.ebpf.containers", "unhealthy", none)
	out, err := exec.Command(rig.Binary(t), "targets", h.Config).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "NO PROCESS MATCHES A TARGET") {
		t.Errorf("headwater targets: %v\n%s", err, out)
	}
	for i, shape := range containerShapes {
		if shape.late {
			t.Run("comes", func(t *testing.T) {
				shape.start(t, boxes[i])
				waitHealth(t, h, "pyroscope.ebpf.containers", "healthy", "profiling 7 targets")
			})
		}
	}
	waitHealth(t, h, "pyroscope.ebpf.containers", "unhealthy", none)
	h.Stop(t)
}

// waitHealth waits until a component is in a state and its message has a text.
func waitHealth(t testing.TB, h *rig.Headwater, id, state, text string) {
	t.Helper()
	var now rig.Health
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		now = h.Component(t, id)
		if now.State == state && strings.Contains(now.Message, text) {
			return
		}
	}
	t.Fatalf("%v; want %s: %s", now, state, text)
}

// makeBoxes makes one image and, for each shape, a layer with a program. The path
// where containers have it is a folder of the host with another program.
func makeBoxes(t testing.TB, shapes []containerShape) []box {
	t.Helper()
	need.Tools(t, "objcopy", "ldd")
	folder := t.TempDir()
	compileApp(t, folder, "decoy")
	image := filepath.Join(t.TempDir(), "image")
	if err := makeImage(image, []string{"/tmp", folder}, filepath.Join(folder, "app")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(image, "/tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	var boxes []box
	for _, shape := range shapes {
		b := box{id: newContainerID(), image: image, layer: t.TempDir(), mount: folder,
			args: []string{filepath.Join(folder, "app"), "600"}}
		b.cgroup = strings.ReplaceAll(shape.cgroup, "ID", b.id)
		if shape.jit {
			b.args, b.config = append(b.args, "jit"), withTmp
		}
		compileApp(t, b.layer, shape.name)
		if shape.stripped {
			splitSymbols(t, filepath.Join(b.layer, "app"), image)
		}
		boxes = append(boxes, b)
	}
	return boxes
}

// withTmp gives a container a /tmp.
func withTmp(config map[string]any) {
	tmp := map[string]any{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}
	config["mounts"] = slices.Insert(config["mounts"].([]any), 1, any(tmp)) // the layer is below it
}

// compileApp builds testdata/container into a folder.
func compileApp(t testing.TB, folder, prefix string) {
	t.Helper()
	flags := append(slices.Clone(rig.WithoutFramePointers), "-DPREFIX="+prefix)
	rig.Compile(t, "gcc", append(flags, "-fPIC", "-shared", "-o", filepath.Join(folder, "libapp.so"),
		"testdata/container/library.c")...)
	rig.Compile(t, "gcc", append(flags, "-o", filepath.Join(folder, "app"), "testdata/container/main.c",
		"-L"+folder, "-lapp", "-Wl,-rpath,$ORIGIN")...)
}

// splitSymbols moves a program's symbols to where an image's debug files are.
func splitSymbols(t testing.TB, program, image string) {
	t.Helper()
	id := rig.BuildID(t, program)
	debug := filepath.Join(image, "/usr/lib/debug/.build-id", id[:2], id[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	rig.Compile(t, "objcopy", "--only-keep-debug", program, debug)
	rig.Compile(t, "objcopy", "--strip-all", program)
}

func (s containerShape) start(t testing.TB, b box) *container {
	t.Helper()
	if s.bare {
		return startBare(t, b)
	}
	return startContainer(t, b)
}

// containersConfig profiles the containers that the shapes have targets for.
func containersConfig(server *rig.Pyroscope, boxes []box) string {
	var targets strings.Builder
	for i, shape := range containerShapes {
		if shape.target != "" {
			fmt.Fprintf(&targets, "\t\t%s,\n", strings.ReplaceAll(shape.target, "ID\"", boxes[i].id+"\""))
		}
	}
	return fmt.Sprintf(`
discovery.relabel "containers" {
	targets = [
%s	]
	rule {
		source_labels = ["drop"]
		regex         = "yes"
		action        = "drop"
	}
}

pyroscope.ebpf "containers" {
	targets          = discovery.relabel.containers.output
	forward_to       = [pyroscope.write.server.receiver]
	collect_interval = "1s"
}

pyroscope.write "server" {
	endpoint {
		url = %q
	}
}
`, targets.String(), server.URL)
}

// checkContainers judges the profiles of the containers in Pyroscope.
func checkContainers(t testing.TB, server *rig.Pyroscope, boxes []box) {
	t.Helper()
	var services []string
	for i, shape := range containerShapes {
		if shape.service == "" {
			continue
		}
		services = append(services, shape.service)
		selector := fmt.Sprintf(`{service_name=%q, shape=%q}`, shape.service, shape.name)
		var all []rig.Stack
		testkit.Eventually(t, "half a second of "+shape.name+" is in Pyroscope", func() bool {
			all = rig.Stacks(server.Profile(t, rig.CPUProfile, selector, time.Time{}))
			return rig.Total(rig.OfCommand(all, "app")) >= 5e8
		})

		shape.check(t, all, boxes[i])
	}
	slices.Sort(services)
	if got := server.LabelValues(t, "service_name"); !slices.Equal(got, services) {
		t.Errorf("services in Pyroscope: %q, want %q", got, services)
	}
}

// check judges the stacks of one container: there is no frame of another program, and nearly all stacks are complete.
func (s containerShape) check(t testing.TB, all []rig.Stack, b box) {
	t.Helper()
	of := func(file, function string) rig.Frame {
		return rig.Frame{Name: s.name + function, File: filepath.Join(b.mount, file),
			BuildID: rig.BuildID(t, filepath.Join(b.layer, file))}
	}
	chain := []rig.Frame{of("app", "_outer"), of("app", "_middle"), of("libapp.so", "_library"), of("app", "_leaf")}
	whole, unready, others := int64(0), int64(0), []rig.Stack{}
	all = slices.DeleteFunc(slices.Clone(all), func(x rig.Stack) bool {
		runtime := s.late && x.Frames[0].Name != "app" // it prepares the container, under several names
		return runtime || x.Has("_dl_start")           // the dynamic loader takes as long as the disk does
	})
	for _, x := range all {
		if slices.ContainsFunc(x.Frames, s.foreign) {
			t.Errorf("%s has a frame of another program: %v", s.name, x)
		}
		for i := range x.Frames { // after a chroot, the kernel may report paths from the host's root
			if _, below, ok := strings.Cut(x.Frames[i].File, b.image); ok {
				x.Frames[i].File = below
			}
		}
		at := slices.IndexFunc(x.Frames, func(f rig.Frame) bool { return f.Name == "main" })
		if x.Frames[0].Name == "app" && len(x.Frames) > 1 && x.Frames[1].Name == "_start" && at > 0 &&
			len(x.Frames) >= at+1+len(chain) &&
			slices.Equal(x.Frames[at+1:at+1+len(chain)], chain) && x.Has(s.name+"_jitted") == s.jit {
			whole += x.Value
		} else {
			others = append(others, x)
			if x.IsUnready() {
				unready += x.Value
			}
		}
	}
	t.Logf("%s: %d ms, %d ms whole", s.name, rig.Total(all)/1e6, whole/1e6)
	// The rest is in main, and going to sleep.
	if total := rig.Total(all) - unready; whole <= unready || float64(whole) < 0.9*float64(total) {
		t.Errorf("only %d of %d ns of %s are below %v, %d ns are from before it was read:\n%s", whole, total, s.name, chain,
			unready, rig.Show(others, 5))
	}
}

// foreign reports whether a frame is of another build of testdata/container.
func (s containerShape) foreign(f rig.Frame) bool {
	prefix, function, _ := strings.Cut(f.Name, "_")
	return prefix != s.name && slices.Contains([]string{"outer", "middle", "library", "leaf", "jitted"}, function)
}

// checkExplained judges what `headwater targets` says of each container, and that
// the component's debug info says the same.
func checkExplained(t testing.TB, h *rig.Headwater, running []*container) {
	t.Helper()
	out, err := exec.Command(rig.Binary(t), "targets", "--all", h.Config).CombinedOutput()
	if err != nil {
		t.Fatalf("headwater targets: %v\n%s", err, out)
	}
	_, debug := h.Get(t, "/api/v0/web/components/pyroscope.ebpf.containers")
	for i, c := range running {
		shape, line := containerShapes[i], ""
		for l := range strings.Lines(string(out)) {
			if strings.HasPrefix(l, fmt.Sprint(c.host)+" ") {
				line = l
			}
		}
		if !strings.Contains(line, shape.why) || !strings.Contains(line, " app ") {
			t.Errorf("headwater targets does not say %q of process %d (%s), but %q", shape.why, c.host, shape.name, line)
		}
		if !strings.Contains(debug, fmt.Sprintf(`"value":%d`, c.host)) {
			t.Errorf("the debug info does not have process %d of %s", c.host, shape.name)
		}
	}
}

// inContainer has headwater run in a container with the host's PID and network
// namespaces and the privileges that the README names.
func inContainer(t testing.TB) func(*exec.Cmd) {
	t.Helper()
	need.Tools(t, "runc")
	dir := t.TempDir()
	return func(cmd *exec.Cmd) {
		b := box{id: newContainerID(), image: filepath.Join(dir, "image"), args: cmd.Args}
		b.cgroup = "/docker/" + b.id
		folder := filepath.Dir(cmd.Args[len(cmd.Args)-1]) // of the configuration
		program := cmd.Path
		b.config = func(config map[string]any) {
			caps := []string{"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_CHECKPOINT_RESTORE", "CAP_DAC_READ_SEARCH",
				"CAP_SYSLOG"}
			process := config["process"].(map[string]any)
			process["user"] = map[string]any{"uid": 0, "gid": 0}
			process["capabilities"] = map[string]any{"bounding": caps, "effective": caps, "permitted": caps}
			config["mounts"] = []any{
				map[string]any{"destination": "/proc", "type": "proc", "source": "proc"},
				map[string]any{"destination": "/var/tmp", "type": "tmpfs", "source": "tmpfs"},
				map[string]any{"destination": "/sys", "type": "bind", "source": "/sys", "options": []string{"rbind", "ro"}},
				map[string]any{"destination": folder, "type": "bind", "source": folder, "options": []string{"bind"}},
				// Again, as the tree itself may be below /var/tmp.
				map[string]any{"destination": program, "type": "bind", "source": program, "options": []string{"bind", "ro"}},
			}
			config["linux"].(map[string]any)["namespaces"] = []any{
				map[string]any{"type": "mount"}, map[string]any{"type": "cgroup"}, map[string]any{"type": "ipc"},
				map[string]any{"type": "uts"},
			}
		}
		if err := makeImage(b.image, []string{"/var/tmp", folder}, cmd.Path); err != nil {
			t.Fatal(err)
		}
		if err := b.bundle(dir); err != nil {
			t.Fatal(err)
		}
		runc, err := exec.LookPath("runc")
		if err != nil {
			t.Fatal(err)
		}
		state := filepath.Join(dir, "state")
		cmd.Path, cmd.Args = runc, []string{"runc", "--root", state, "run", "--bundle", dir, b.id}
		t.Cleanup(func() { _ = exec.Command("runc", "--root", state, "delete", "--force", b.id).Run() }) // most often gone
	}
}
