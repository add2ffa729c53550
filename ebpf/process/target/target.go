// Package target finds the discovery target of a process, and the labels with which its profiles are sent.
//
// The rules are the same as in Grafana Agent's pyroscope.ebpf: a target names a process by PID or by container ID, the
// container of a process is read from its cgroup, and a process that matches no target gets the default target or is
// not profiled.
package target

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Labels that identify a target, in the order in which they are tried.
const (
	LabelProcessPID       = "__process_pid__"
	LabelContainerID      = "__container_id__"
	LabelKubernetesID     = "__meta_kubernetes_pod_container_id"
	LabelDockerID         = "__meta_docker_container_id"
	LabelDockerSwarmID    = "__meta_dockerswarm_task_container_id"
	LabelName             = "__name__"
	LabelServiceName      = "service_name"
	labelReserved         = "__"
	labelOptions          = "__meta_pyroscope_ebpf_options_"
	labelKubernetesName   = "__meta_kubernetes_pod_annotation_pyroscope_io_service_name"
	labelKubernetesNS     = "__meta_kubernetes_namespace"
	labelKubernetesCtr    = "__meta_kubernetes_pod_container_name"
	labelDockerName       = "__meta_docker_container_name"
	labelSwarmCtrService  = "__meta_dockerswarm_container_label_service_name"
	labelSwarmServiceName = "__meta_dockerswarm_service_name"
)

// Default values of labels.
const (
	DefaultName        = "process_cpu" // value of __name__, for profiles of CPU time
	UnspecifiedService = "unspecified" // value of service_name
)

// Target is one set of labels and the process or container that it applies to. It is immutable; two targets are the
// same only if their pointers are equal.
type Target struct {
	labels      map[string]string
	fingerprint uint64

	matchedBy   string // the label that identifies it; "" for the default target
	containerID string
	pid         uint32
	process     instance // meaning of pid
}

// newTarget returns the target of a set of discovery labels, or nil if they name
// neither a process nor a container.
func newTarget(discovered map[string]string) *Target {
	t := &Target{}
	if t.pid = processID(discovered); t.pid != 0 {
		t.matchedBy, t.process = LabelProcessPID, parseInstance(discovered[LabelProcessInstance])
		t.setLabels(discovered)
		t.labels[LabelProcessPID] = strconv.FormatUint(uint64(t.pid), 10)
	} else if t.containerID, t.matchedBy = ContainerID(discovered); t.containerID != "" {
		t.setLabels(discovered)
		t.labels[LabelContainerID] = t.containerID
	} else {
		return nil
	}
	t.fingerprint = fingerprint(t.labels)
	return t
}

// Of returns a target with the given labels that no process or container identifies: the caller knows its processes.
func Of(labels map[string]string) *Target { return newDefaultTarget(labels) }

// newDefaultTarget returns the target of processes that match no other target.
func newDefaultTarget(discovered map[string]string) *Target {
	t := &Target{}
	t.setLabels(discovered)
	t.fingerprint = fingerprint(t.labels)
	return t
}

// setLabels keeps the labels of discovered that are sent, and adds missing ones.
func (t *Target) setLabels(discovered map[string]string) {
	t.labels = make(map[string]string, len(discovered)+2)
	for name, value := range discovered {
		if !strings.HasPrefix(name, labelReserved) || name == LabelName || strings.HasPrefix(name, labelOptions) {
			t.labels[name] = value
		}
	}
	if t.labels[LabelName] == "" {
		t.labels[LabelName] = DefaultName
	}
	t.labels[LabelServiceName] = ServiceName("ebpf", discovered)
}

// Labels returns the labels of the target's profiles: always __name__ and service_name, then the labels of the
// discovery target that are not internal, and the container ID or PID by which it was found. The caller owns the map.
func (t *Target) Labels() map[string]string { return maps.Clone(t.labels) }

// ServiceName returns the value of the label service_name, never empty.
func (t *Target) ServiceName() string { return t.labels[LabelServiceName] }

// Option returns a per-target option of the profiler, such as demangle: the value
// of the label __meta_pyroscope_ebpf_options_NAME.
func (t *Target) Option(name string) (value string, ok bool) {
	value, ok = t.labels[labelOptions+name]
	return value, ok
}

// Fingerprint is equal for targets with equal Labels.
func (t *Target) Fingerprint() uint64 { return t.fingerprint }

// MatchedBy returns the name of the label that identifies the target, or "" for
// the default target.
func (t *Target) MatchedBy() string { return t.matchedBy }

// String returns the labels sorted by name, written as in a Pyroscope query.
func (t *Target) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(t.labels)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(strconv.Quote(t.labels[name]))
	}
	b.WriteByte('}')
	return b.String()
}

// ServiceName returns the service name of a target for a profiler: in Kubernetes, the name is
// PROFILER/NAMESPACE/CONTAINER.
func ServiceName(profiler string, discovered map[string]string) string {
	if name := firstOf(discovered, LabelServiceName, labelKubernetesName); name != "" {
		return name
	}
	namespace, container := discovered[labelKubernetesNS], discovered[labelKubernetesCtr]
	if namespace != "" && container != "" {
		return profiler + "/" + namespace + "/" + container
	}
	if name := firstOf(discovered, labelDockerName, labelSwarmCtrService, labelSwarmServiceName); name != "" {
		return name
	}
	return UnspecifiedService
}

// firstOf returns the first non-empty value of the named labels.
func firstOf(labels map[string]string, names ...string) string {
	for _, name := range names {
		if value := labels[name]; value != "" {
			return value
		}
	}
	return ""
}

func fingerprint(labels map[string]string) uint64 {
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		h.Write([]byte(name))
		h.Write([]byte{0xff}) // not valid in UTF-8
		h.Write([]byte(labels[name]))
		h.Write([]byte{0xff})
	}
	return h.Sum64()
}
