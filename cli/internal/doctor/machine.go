package doctor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/symbol"
)

// minMajor.minMinor is the oldest kernel with the required BPF features.
const (
	minMajor = 5
	minMinor = 10
)

// release returns this kernel's release, and its first two numbers.
func release() (text string, major, minor int) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error(), 0, 0
	}
	text = unix.ByteSliceToString(u.Release[:])
	major, minor = versionOf(text)
	return text, major, minor
}

// versionOf returns the first two numbers of a kernel's release, 0 for a part that is not a number.
func versionOf(release string) (major, minor int) {
	first, rest, _ := strings.Cut(release, ".")
	major, _ = strconv.Atoi(first)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	minor, _ = strconv.Atoi(rest[:end])
	return major, minor
}

func atLeast(major, minor, wantMajor, wantMinor int) bool {
	return cmp.Or(cmp.Compare(major, wantMajor), cmp.Compare(minor, wantMinor)) >= 0
}

func kernelVersion() Finding {
	text, major, minor := release()
	f := Finding{"kernel", OK, text, ""}
	if !atLeast(major, minor, minMajor, minMinor) {
		f.State, f.Do = Bad, fmt.Sprintf("run Linux %d.%d or newer", minMajor, minMinor)
	}
	return f
}

func architecture() Finding {
	f := Finding{"architecture", OK, runtime.GOARCH, ""}
	if runtime.GOARCH != "amd64" {
		f.State, f.Do = Warn, "prefer x86-64: arm64 is tested only in emulation"
	}
	return f
}

func checkBTF() Finding {
	const path = "/sys/kernel/btf/vmlinux"
	if _, err := os.Stat(path); err != nil {
		return Finding{"BTF", Bad, err.Error(), "run a kernel with CONFIG_DEBUG_INFO_BTF=y, such as a distribution's; " +
			"in a container, mount /sys"}
	}
	return Finding{"BTF", OK, path, ""}
}

func pidNamespace() Finding {
	if err := kernel.CheckNamespace(); err != nil {
		return Finding{"PID namespace", Bad, "not the host's", err.Error()}
	}
	return Finding{"PID namespace", OK, "the host's", ""}
}

func capabilities() Finding {
	missing, err := kernel.MissingCapabilities()
	switch {
	case err != nil:
		return Finding{"capabilities", Bad, err.Error(), "mount /proc"}
	case len(missing) == 0:
		return Finding{"capabilities", OK, "all required", ""}
	}
	self, err := os.Executable()
	if err != nil {
		self = "headwater"
	}
	return Finding{"capabilities", Bad, "missing: " + strings.Join(missing, ", "),
		"run it as root; or sudo setcap " + kernel.FileCapabilities() + " " + self + "; or in a systemd unit " +
			kernel.AmbientCapabilities()}
}

func lockdown() Finding {
	text, err := os.ReadFile("/sys/kernel/security/lockdown")
	f := Finding{"lockdown", OK, "none", ""}
	if err != nil {
		return f
	}
	_, mode, _ := strings.Cut(string(text), "[")
	f.Found, _, _ = strings.Cut(mode, "]")
	if f.Found == "confidentiality" {
		f.State, f.Do = Bad, "boot with lockdown=integrity or without lockdown: BPF must read memory"
	}
	return f
}

// setting returns a number from /proc/sys/kernel.
func setting(name string) (int, error) {
	text, err := os.ReadFile("/proc/sys/kernel/" + name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func paranoid() Finding {
	const name = "perf_event_paranoid"
	value, err := setting(name)
	if err != nil {
		return Finding{name, Bad, err.Error(), "run a kernel with CONFIG_PERF_EVENTS=y"}
	}
	return Finding{name, OK, fmt.Sprintf("%d (without effect on a process with CAP_PERFMON)", value), ""}
}

// usualRate is the default sample rate.
const usualRate = 97

func sampleRate() Finding {
	const name = "sample rate"
	value, err := setting("perf_event_max_sample_rate")
	f := Finding{name, OK, fmt.Sprintf("at most %d Hz", value), ""}
	switch {
	case err != nil:
		f.State, f.Found, f.Do = Warn, err.Error(), "the kernel may throttle samples"
	case value < usualRate:
		f.State, f.Do = Warn, "sudo sysctl kernel.perf_event_max_sample_rate=100000: the kernel throttles higher rates"
	}
	return f
}

func kernelSymbols() Finding {
	status := symbol.New(symbol.Options{}).KernelStatus()
	f := Finding{"kernel symbols", OK, fmt.Sprintf("%d functions", status.Symbols), ""}
	if status.Err != nil {
		f.State, f.Found, f.Do = Warn, status.Err.Error(), "sudo sysctl kernel.kptr_restrict=1, and grant CAP_SYSLOG: "+
			"both are needed for names of kernel functions"
	}
	return f
}

func memlock() Finding {
	const name = "locked memory"
	if _, major, minor := release(); atLeast(major, minor, 5, 11) {
		return Finding{name, OK, "no limit for BPF on this kernel", ""}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return Finding{name, Warn, err.Error(), ""}
	}
	if limit.Cur == unix.RLIM_INFINITY || os.Geteuid() == 0 {
		return Finding{name, OK, "no limit", ""}
	}
	return Finding{name, Bad, fmt.Sprintf("%d bytes; before Linux 5.11, memory of BPF counts", limit.Cur),
		"set LimitMEMLOCK=infinity in the systemd unit, or run ulimit -l unlimited"}
}

func debugFiles() Finding {
	const name = "debug files"
	found, _ := filepath.Glob(debugfile.DefaultDir + "/.build-id/*")
	servers := os.Getenv("DEBUGINFOD_URLS")
	switch {
	case len(found) > 0 && servers != "":
		return Finding{name, OK, debugfile.DefaultDir + ", and debuginfod at " + servers, ""}
	case len(found) > 0:
		return Finding{name, OK, debugfile.DefaultDir, ""}
	case servers != "":
		return Finding{name, OK, "debuginfod at " + servers + ", if the configuration has a block debuginfod", ""}
	}
	return Finding{name, Warn, "none in " + debugfile.DefaultDir + ", and DEBUGINFOD_URLS is not set",
		"install debug packages such as libc6-dbg, or write the block debuginfod: they have the names of functions in " +
			"stripped files"}
}
