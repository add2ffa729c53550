package kernel

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestKernelSymbolRecords loads BPF programs and compares perf's records of their code with kallsyms.
func TestKernelSymbolRecords(t *testing.T) {
	need.Root(t)
	side, err := OpenSideBand()
	need.Allowed[*PermissionError](t, err)
	defer side.Close()
	load(t)
	symbols, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	same, seen := 0, []string{}
	testkit.Eventually(t, "there are records of the programs", func() bool {
		records, _, err := side.Read()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Kind == RecordLost { // other programs have filled a buffer
				load(t)
				if symbols, err = os.ReadFile("/proc/kallsyms"); err != nil {
					t.Fatal(err)
				}
			}
			if r.Kind != RecordKernelSymbol {
				continue
			}
			seen = append(seen, fmt.Sprintf("%+v", r.Symbol))
			if r.Symbol.BPF && !r.Symbol.Removed && r.Symbol.Size > 0 &&
				strings.Contains(string(symbols), fmt.Sprintf("%016x t %s\t[bpf]\n", r.Symbol.Address, r.Symbol.Name)) {
				same++
			}
		}
		return same > 0 || len(seen) >= 1000
	})
	if same == 0 {
		t.Errorf("none of these is in kallsyms: %v", seen)
	}
}
