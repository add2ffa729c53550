package target

import (
	"regexp"
	"strconv"
	"strings"
)

// processID returns the PID that a discovery target names, 0 if none.
func processID(discovered map[string]string) uint32 {
	pid, err := strconv.ParseUint(discovered[LabelProcessPID], 10, 32)
	if err != nil {
		return 0
	}
	return uint32(pid)
}

// containerIDOf returns the container ID that a discovery target names and the
// label that held it, or "".
func containerIDOf(discovered map[string]string) (id, label string) {
	if id := discovered[LabelContainerID]; id != "" {
		return id, LabelContainerID
	}
	if id := discovered[LabelKubernetesID]; id != "" {
		// An ID of a runtime we do not know ends the search: Docker's labels
		// would be those of another container.
		return trimRuntime(id), LabelKubernetesID
	}
	if id := discovered[LabelDockerID]; id != "" {
		return id, LabelDockerID
	}
	return discovered[LabelDockerSwarmID], LabelDockerSwarmID
}

// trimRuntime removes the name of the container runtime from a Kubernetes
// container ID, such as containerd://4ec0...; "" if it has none that we know.
func trimRuntime(id string) string {
	for _, runtime := range []string{"docker://", "containerd://", "cri-o://"} {
		if bare, ok := strings.CutPrefix(id, runtime); ok {
			return bare
		}
	}
	return ""
}

// cgroupContainer matches a line of /proc/PID/cgroup (cgroups(7)) that ends in a
// container: its ID stands at the start of a path element or after a dash, and
// is followed by the unit's suffix (cri-containerd-ID.scope), by one more plain
// element (a cgroup that CRI-O or the container makes inside), or by nothing.
// An ID is 64 hex digits, or 32 and a number (AWS Fargate).
var cgroupContainer = regexp.MustCompile(`^.*/(?:.*-)?([0-9a-f]{64}|[0-9a-f]{32}-\d+)(?:\.|\s*$|/[a-z]+$)`)

// containerIDFromCgroup returns the container ID in the first line of
// /proc/PID/cgroup that has one, or "".
func containerIDFromCgroup(lines []string) string {
	for _, line := range lines {
		if len(line) < 32 { // too short to hold an ID; most often 0::/
			continue
		}
		if m := cgroupContainer.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}
