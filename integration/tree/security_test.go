package tree

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/component/local/file"
	"github.com/headwater/headwater/component/pyroscope/receivehttp"
	"github.com/headwater/headwater/component/pyroscope/write"
	"github.com/headwater/headwater/ebpf/dwarfline"
	"github.com/headwater/headwater/ebpf/ehframe"
	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/gopclntab"
	processes "github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/runtime/chain"
	"github.com/headwater/headwater/ebpf/runtime/jvm"
	names "github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
	"github.com/headwater/headwater/ebpf/symbol/jit"
	"github.com/headwater/headwater/river"
)

// TestSecurityTable compares the bounds in SECURITY.md with those of the code.
func TestSecurityTable(t *testing.T) {
	data, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{
		fmt.Sprintf("| Section read as a whole | owner of the file | %d MiB |", elffile.MaxSection>>20),
		fmt.Sprintf("| Section mapped for debug info | owner of the file | %d GiB |", elffile.MaxMapped>>30),
		fmt.Sprintf("| Compressed section | owner of the file | %d times its size in the file; %d MiB in memory; %.0f s |",
			elffile.MaxRatio, elffile.MaxInflated>>20, elffile.UnpackTime.Seconds()),
		fmt.Sprintf("; %s steps a lookup, %s a file and then %s a second;",
			thousands(dwarfline.MaxWork), thousands(dwarfline.MaxFileWork), thousands(dwarfline.FileWorkPerSecond)),
		fmt.Sprintf("| copied: %d MiB and %.0f s a file, %d GiB in all, half of the free space |",
			elffile.MaxCopy>>20, elffile.CopyTime.Seconds(), elffile.MaxCopies>>30),
		fmt.Sprintf("| %d GiB a file, %d GiB in all,", elffile.DefaultFileSpill>>30, elffile.DefaultSpill>>30),
		fmt.Sprintf("| Debug file named by `.gnu_debuglink` | its user | %d GiB, %.0f s,",
			names.MaxLinked>>30, names.MaxLinkedTime.Seconds()),
		fmt.Sprintf("| owner of the file | %d MiB compressed, %d MiB, %.0f s |",
			names.MaxMiniDebug>>20, names.MaxMiniDebugSize>>20, names.MaxMiniDebugTime.Seconds()),
		fmt.Sprintf("| %d MiB each and %d MiB together, decompressed; "+
			"`server_read_timeout`, or %.0f minutes if that is 0; %d KiB of headers;",
			receivehttp.MaxRequest>>20, receivehttp.MaxInFlight>>20, receivehttp.MaxBodyTime.Minutes(),
			receivehttp.MaxHeader>>10),
		fmt.Sprintf("| %d MiB an entry, %d KiB a CIE; without a search table the first %d MiB and %s entries |",
			ehframe.MaxEntry>>20, ehframe.MaxCIE>>10, ehframe.MaxScan>>20, thousands(ehframe.MaxScanEntries)),
		fmt.Sprintf("| searched for in %d GiB and at %d places; names of %d KiB; %d inlined calls |",
			gopclntab.MaxScan>>30, gopclntab.MaxCandidates, gopclntab.MaxName>>10, gopclntab.MaxInlined),
		fmt.Sprintf("| %s pages of rows |", thousands(processes.MaxPages)),
		fmt.Sprintf("; %d MiB a process at once and then %d MiB/s; %d KiB a line; %d MiB of names for all",
			jit.MaxRead>>20, jit.MaxReadRate>>20, jit.MaxLine>>10, jit.DefaultBytes>>20),
		fmt.Sprintf("| %s entries of its description, %d GiB of code cache, %d MiB of instructions",
			thousands(jvm.MaxEntries), jvm.MaxCache>>30, jvm.MaxCode>>20),
		fmt.Sprintf("of one piece of code; %d MiB remembered of all VMs together |", jvm.MaxRemembered>>20),
		fmt.Sprintf("; %s places of a function in a profile |", thousands(profile.MaxPlaces)),
		fmt.Sprintf("| %d ms a read, %d times that while it waits for a CPU, then none of that process until it is done, "+
			"and for up to %d times what was waited; %.0f s of a user's at once and then 1/%d of the time |",
			filework.QuickPatience.Milliseconds(), filework.QuickTurns, filework.LateShare,
			filework.LateAtOnce.Seconds(), filework.LateShare),
		fmt.Sprintf("| %s frames and ", thousands(chain.MaxFrames)),
		fmt.Sprintf(", of %d bytes; %d functions read for a sample; %d MiB remembered of all processes together; ",
			runtime.MaxTexts*runtime.MaxTextBytes, processes.MaxReads, processes.MaxRemembered>>20),
		fmt.Sprintf("; %s reads of 1 KiB of a process at once and then %s a second, %d in the end, %s and %s of all; ",
			thousands(processes.MaxReadsAtOnce), thousands(processes.ReadsPerSecond), processes.LeastReadsPerSecond,
			thousands(processes.MaxAllReadsAtOnce), thousands(processes.AllReadsPerSecond)),
		fmt.Sprintf("; one thread of a process, which rests for up to %d times what it took if that was more than %d ms; "+
			"none for %.0f s, and then for up to %.0f minutes, while", processes.LateReadShare,
			processes.ReadPatience.Milliseconds(), processes.ShortestRest.Seconds(), processes.LongestRest.Minutes()),
		fmt.Sprintf("| %d MiB of paths;", procfs.MaxPaths>>20),
		fmt.Sprintf("| `/proc/PID/cmdline` | user of the process | %d KiB |", procfs.MaxCmdline>>10),
		fmt.Sprintf("| the server that the configuration names | %d MiB each; %d GiB a watch of Kubernetes |",
			discovery.MaxAnswer>>20, discovery.MaxWatch>>30),
		fmt.Sprintf("| Answers of Pyroscope | the server | %d MiB;", write.MaxResponse>>20),
		fmt.Sprintf("| Files of debuginfod | the server | %d GiB a file and no more than its cache, %d GiB if",
			int64(debuginfod.MaxFile>>30), debuginfod.DefaultCacheSize>>30),
		fmt.Sprintf("| File of `local.file` and `import.file` | who may write it | %d MiB |", file.MaxFile>>20),
		fmt.Sprintf("| Modules and imports | the configuration | %d levels |", river.MaxDepth),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("SECURITY.md does not say %q", want)
		}
	}
}

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
