package target

import (
	"slices"
	"strconv"
	"strings"
)

// processID returns the PID that a discovery target names, or 0 if none.
func processID(discovered map[string]string) uint32 {
	pid, err := strconv.ParseUint(discovered[LabelProcessPID], 10, 32)
	if err != nil {
		return 0
	}
	return uint32(pid)
}

// ContainerID returns the container ID that a discovery target names and its label, or "".
func ContainerID(discovered map[string]string) (id, label string) {
	if id := discovered[LabelContainerID]; id != "" {
		return id, LabelContainerID
	}
	if id := discovered[LabelKubernetesID]; id != "" {
		// An ID of an unknown runtime ends the search: Docker's labels would name a different container.
		return trimRuntime(id), LabelKubernetesID
	}
	if id := discovered[LabelDockerID]; id != "" {
		return id, LabelDockerID
	}
	return discovered[LabelDockerSwarmID], LabelDockerSwarmID
}

// trimRuntime removes the name of the container runtime from a Kubernetes container ID, such as containerd://4ec0...;
// it returns "" if the runtime is unknown.
func trimRuntime(id string) string {
	for _, runtime := range []string{"docker://", "containerd://", "cri-o://"} {
		if bare, ok := strings.CutPrefix(id, runtime); ok {
			return bare
		}
	}
	return ""
}

// ContainerIDFromCgroup returns the first of ContainerIDsFromCgroup, or "".
func ContainerIDFromCgroup(lines []string) string {
	if ids := ContainerIDsFromCgroup(lines); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

// ContainerIDsFromCgroup returns the container IDs in the first line of /proc/PID/cgroup (cgroups(7)) that has one: the
// innermost container, then the containers around it, such as a machine of kind or the runner of a CI. A process in a
// cgroup that was made inside the container, for example by systemd, is also in the container; the monitor process that
// podman and CRI-O run next to each container is not.
func ContainerIDsFromCgroup(lines []string) []string {
	var ids []string
	for _, line := range lines {
		if len(line) < 32 { // too short to hold an ID; most often 0::/
			continue
		}
		path, found := pathOf(strings.TrimRight(line, "\n"))
		if !found {
			continue
		}
		for path != "" {
			slash := strings.LastIndexByte(path, '/')
			if id := containerIDOfElement(path[slash+1:]); id != "" && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
			path = path[:max(slash, 0)]
		}
		if ids != nil {
			return ids
		}
	}
	return nil
}

// pathOf returns the path of "hierarchy:controllers:path".
func pathOf(line string) (path string, found bool) {
	_, rest, _ := strings.Cut(line, ":")
	_, path, found = strings.Cut(rest, ":")
	return path, found
}

// containerIDOfElement returns the container ID in one element of a cgroup's path, or "": ID (cgroupfs),
// RUNTIME-ID.scope (systemd), or SLICE:RUNTIME:ID (systemd's form in a cgroupfs path).
func containerIDOfElement(element string) string {
	name, _, _ := strings.Cut(element, ".scope")
	runtime, id := "", name
	if i := strings.LastIndexAny(name, "-:"); i >= 0 {
		runtime, id = name[:i], name[i+1:]
	}
	switch {
	case strings.HasSuffix(runtime, "conmon"):
		return ""
	case len(id) == 64 && isHex(id):
		return id
	case len(runtime) == 32 && isHex(runtime) && isNumber(id): // AWS Fargate
		return name
	default:
		return ""
	}
}

func isHex(s string) bool    { return strings.Trim(s, "0123456789abcdef") == "" }
func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
