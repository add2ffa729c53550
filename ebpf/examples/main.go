// Command examples has short programs that use the profiler as a library, each in a file of its own:
//
//	go run ./ebpf/examples NAME [ARGUMENT]
//
// All but core need root, or the capabilities that their error names.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/headwater/headwater/ebpf"
)

// examples are the programs by name. Each prints to out.
var examples = map[string]func(out io.Writer, argument string) error{
	"cpu": cpu, "offcpu": offCPU, "heap": heap, "probe": probes, "labels": labels, "core": core,
}

func main() {
	args := append(os.Args[1:], "", "")
	example := examples[args[0]]
	if example == nil || (args[1] == "" && args[0] != "cpu") {
		fmt.Fprintln(os.Stderr, "usage: examples NAME ARGUMENT; cpu has no argument, the other names are",
			"offcpu PID, heap PID, labels PID, probe LINK and core FILE")
		os.Exit(2)
	}
	if err := example(os.Stdout, args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// printTop prints the number of samples of each profile, and the most frequent leaf.
func printTop(out io.Writer, profiles []ebpf.Profile) {
	for _, p := range profiles {
		leaves := map[string]int64{}
		for _, s := range p.Pprof.Sample {
			if len(s.Location) > 0 && len(s.Location[0].Line) > 0 {
				leaves[s.Location[0].Line[0].Function.Name] += s.Value[0]
			}
		}
		if len(leaves) == 0 {
			continue
		}
		most := slices.MaxFunc(slices.Sorted(maps.Keys(leaves)), func(a, b string) int { return int(leaves[a] - leaves[b]) })
		fmt.Fprintf(out, "%s of %s: %d samples, most in %s\n", p.Kind, p.Labels["service_name"], p.Samples, most)
	}
}
