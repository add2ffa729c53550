package target

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	idA = "4ec0624267de013f5b936c7bc37a6551d95a997fa659d41a9f840e7d32b84378"
	idB = "b5f0000000000000000000000000000000000000000000000000000000000b5f"
)

// The cases follow the documented order of Grafana Agent's pyroscope.ebpf.
func TestServiceName(t *testing.T) {
	all := map[string]string{
		"service_name": "own",
		"__meta_kubernetes_pod_annotation_pyroscope_io_service_name": "annotation",
		"__meta_kubernetes_namespace":                                "ns",
		"__meta_kubernetes_pod_container_name":                       "ctr",
		"__meta_docker_container_name":                               "/docker",
		"__meta_dockerswarm_container_label_service_name":            "swarm-label",
		"__meta_dockerswarm_service_name":                            "swarm",
	}
	steps := []struct {
		want   string
		remove []string // before the next step
	}{
		{"own", []string{"service_name"}},
		{"annotation", []string{"__meta_kubernetes_pod_annotation_pyroscope_io_service_name"}},
		{"ebpf/ns/ctr", []string{"__meta_kubernetes_namespace"}},
		{"/docker", []string{"__meta_docker_container_name"}},
		{"swarm-label", []string{"__meta_dockerswarm_container_label_service_name"}},
		{"swarm", []string{"__meta_dockerswarm_service_name"}},
		{"unspecified", nil},
	}
	all[LabelContainerID] = idA
	for _, step := range steps {
		target := newTarget(all)
		require.Equal(t, step.want, target.ServiceName())
		require.Equal(t, step.want, target.Labels()["service_name"])
		for _, name := range step.remove {
			delete(all, name)
		}
	}
}

func TestLabels(t *testing.T) {
	tests := map[string]struct{ in, want map[string]string }{
		"container": {
			in: map[string]string{"__container_id__": idA, "service_name": "grafana", "__name__": "grafana_cpu",
				"__meta_x": "1", "zone": "a"},
			want: map[string]string{"__container_id__": idA, "service_name": "grafana", "__name__": "grafana_cpu",
				"zone": "a"},
		},
		"options are kept": {
			in: map[string]string{"__container_id__": idA, "__meta_pyroscope_ebpf_options_demangle": "full"},
			want: map[string]string{"__container_id__": idA, "__meta_pyroscope_ebpf_options_demangle": "full",
				"service_name": "unspecified", "__name__": "process_cpu"},
		},
		"the matching ID only": {
			in:   map[string]string{"__process_pid__": "7", "__container_id__": idA},
			want: map[string]string{"__process_pid__": "7", "service_name": "unspecified", "__name__": "process_cpu"},
		},
		"kubernetes ID becomes the container ID": {
			in:   map[string]string{"__meta_kubernetes_pod_container_id": "containerd://" + idA},
			want: map[string]string{"__container_id__": idA, "service_name": "unspecified", "__name__": "process_cpu"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := newTarget(test.in)
			require.Equal(t, test.want, got.Labels())
			require.Equal(t, got.Fingerprint(), newTarget(test.in).Fingerprint())
		})
	}
	value, ok := newTarget(tests["options are kept"].in).Option("demangle")
	require.True(t, ok)
	require.Equal(t, "full", value)
}

func TestFingerprintTellsNameFromValue(t *testing.T) {
	a := newDefaultTarget(map[string]string{"ab": "c"})
	b := newDefaultTarget(map[string]string{"a": "bc"})
	require.NotEqual(t, a.Fingerprint(), b.Fingerprint())
}

func TestTargetString(t *testing.T) {
	target := newDefaultTarget(map[string]string{"service_name": `a"b`})
	require.Equal(t, `{__name__="process_cpu", service_name="a\"b"}`, target.String())
}

func TestIdentity(t *testing.T) {
	tests := map[string]struct {
		in        map[string]string
		pid       uint32
		container string
		matchedBy string
	}{
		"pid before container": {map[string]string{"__process_pid__": "12", "__container_id__": idA}, 12, "",
			"__process_pid__"},
		"pid 0 falls through": {map[string]string{"__process_pid__": "0", "__container_id__": idA}, 0, idA,
			"__container_id__"},
		"bad pid falls through": {map[string]string{"__process_pid__": "x", "__container_id__": idA}, 0, idA,
			"__container_id__"},
		"too big a pid falls through": {map[string]string{"__process_pid__": "4294967296", "__container_id__": idA}, 0,
			idA, "__container_id__"},
		"container ID verbatim": {map[string]string{"__container_id__": "docker://x"}, 0, "docker://x",
			"__container_id__"},
		"docker": {map[string]string{"__meta_docker_container_id": idA}, 0, idA,
			"__meta_docker_container_id"},
		"swarm": {map[string]string{"__meta_dockerswarm_task_container_id": idA}, 0, idA,
			"__meta_dockerswarm_task_container_id"},
		"kubernetes docker": {map[string]string{"__meta_kubernetes_pod_container_id": "docker://" + idA}, 0,
			idA, "__meta_kubernetes_pod_container_id"},
		"kubernetes cri-o": {map[string]string{"__meta_kubernetes_pod_container_id": "cri-o://" + idA}, 0,
			idA, "__meta_kubernetes_pod_container_id"},
		"kubernetes before docker": {
			map[string]string{"__meta_kubernetes_pod_container_id": "cri-o://" + idA,
				"__meta_docker_container_id": idB}, 0, idA, "__meta_kubernetes_pod_container_id"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := newTarget(test.in)
			require.NotNil(t, got)
			require.Equal(t, test.pid, got.pid)
			require.Equal(t, test.container, got.containerID)
			require.Equal(t, test.matchedBy, got.MatchedBy())
		})
	}
	for name, in := range map[string]map[string]string{
		"empty":            {},
		"nothing to match": {"service_name": "x", "__address__": "a:1"},
		"kubernetes, unknown runtime": {"__meta_kubernetes_pod_container_id": "rkt://" + idA,
			"__meta_docker_container_id": idB},
		"kubernetes, no runtime at all": {"__meta_kubernetes_pod_container_id": idA, "__meta_docker_container_id": idB},
	} {
		require.Nil(t, newTarget(in), name)
	}
}

// Lines in the formats of Docker, containerd, CRI-O, systemd and Fargate.
func TestContainerIDFromCgroup(t *testing.T) {
	const fargate = "0123456789abcdef0123456789abcdef-2345678901"
	tests := map[string]string{
		"0::/": "",
		"":     "",
		"0::/user.slice/user-1000.slice/session-3.scope":                          "",
		"0::/system.slice/docker-" + idA + ".scope":                               idA,
		"12:cpuset:/docker/" + idA:                                                idA,
		"12:cpuset:/docker/" + idA + "\n":                                         idA,
		"12:cpuset:/docker/" + idA + "/docker/" + idB:                             idB,
		"1:name=systemd:/kubepods/burstable/pod0a-1b/" + idA:                      idA,
		"0::/kubepods.slice/kubepods-podx.slice/cri-containerd-" + idA + ".scope": idA,
		"0::/kubepods.slice/kubepods-podx.slice/crio-" + idA + ".scope/container": idA,
		"0::/kubepods/podx/" + idA + "/container":                                 idA,
		// In kubepods.slice with either driver and every quality of service class.
		"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1a_2b.slice/cri-containerd-" + idA +
			".scope": idA,
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a_2b.slice/crio-" + idA +
			".scope": idA,
		"0::/kubepods.slice/kubepods-pod1a_2b.slice/docker-" + idA +
			".scope": idA,
		"11:cpu,cpuacct:/kubepods/besteffort/pod1a-2b/" +
			idA: idA,
		"0::/system.slice/containerd.service/kubepods-burstable-pod1a_2b.slice:cri-containerd:" +
			idA: idA,
		// Monitors are outside of their containers.
		"0::/machine.slice/libpod-conmon-" + idA + ".scope":                    "",
		"0::/kubepods.slice/kubepods-podx.slice/crio-conmon-" + idA + ".scope": "",
		"0::/machine.slice/libpod-" + idA + ".scope/container":                 idA,
		"12:pids:/libpod_parent/libpod-" + idA:                                 idA,
		// Cgroup namespaces: a sibling, and the profiler's own container.
		"0::/../../kubepods-podx.slice/cri-containerd-" + idA + ".scope": idA,
		"0::/../" + idA: idA,
		// Made by systemd or a kubelet inside the container.
		"0::/docker/" + idA + "/system.slice/cron.service":    idA,
		"0::/docker/" + idA + "/kubelet/kubepods/podx/" + idB: idB,
		"7:memory:/ecs/task/" + fargate:                       fargate,
		"0::/docker/" + idA[:63]:                              "",
		"0::/docker/a" + idA:                                  "",
		"0::/docker/" + idA[:63] + "Z":                        "",
		"0::/libpod-" + idA + ".scope":                        idA,
	}
	for line, want := range tests {
		require.Equal(t, want, ContainerIDFromCgroup([]string{line}), line)
	}
	require.Equal(t, idB, ContainerIDFromCgroup([]string{"0::/", "3:cpu:/docker/" + idB, "2:cpuset:/docker/" + idA}),
		"the first line that matches")
}
