package cpython

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestColdPart: the evaluation loop of a stripped library has the parts that nm lists before the library is stripped,
// and no other code.
func TestColdPart(t *testing.T) {
	need.Tools(t, "gcc", "nm", "strip", "objdump")
	path := filepath.Join(t.TempDir(), "lib.so")
	compile := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", path, "testdata/loop.c")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err := exec.Command("nm", "-S", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []language.Range
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 4 || !strings.HasPrefix(fields[3], symbolEvaluation) {
			continue
		}
		start, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		size, err := strconv.ParseUint(fields[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		r := language.Range{Low: start, High: start + size}
		if fields[3] == symbolEvaluation {
			want = append([]language.Range{r}, want...)
		} else {
			want = append(want, r)
		}
	}
	if len(want) != 2 {
		t.Fatalf("the compiler made %d parts:\n%s", len(want), out)
	}
	if out, err := exec.Command("strip", path).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v\n%s", err, out)
	}
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, ok := (Language{}).Detect("", f).(*library)
	if !ok {
		t.Fatal("not detected")
	}
	if diff := cmp.Diff(want, l.evaluation); diff != "" {
		t.Error(diff)
	}
	if l.version() != "3.11.2" {
		t.Errorf("version %s", l.version())
	}
	checkEntering(t, path, l)
}

// checkEntering: the loop is being entered until it has stored the thread's list, at offset 0x38, and written that
// list; later stores to the thread do not count.
func checkEntering(t *testing.T, path string, l *library) {
	t.Helper()
	if l.machine != elf.EM_X86_64 {
		return
	}
	loop := l.evaluation[0]
	out, err := exec.Command("objdump", "-d", "--no-show-raw-insn", path,
		fmt.Sprintf("--start-address=%#x", loop.Low), fmt.Sprintf("--stop-address=%#x", loop.High)).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(out), ",0x38(%r")
	if !found {
		t.Fatalf("no store in\n%s", out)
	}
	thread, after, _ := strings.Cut(after, ")")
	want, last, others := uint64(0), true, 0
	for line := range strings.Lines(after) {
		address, text, found := strings.Cut(line, ":")
		if !found {
			continue
		}
		if last {
			if want, err = strconv.ParseUint(strings.TrimSpace(address), 16, 64); err != nil {
				t.Fatal(err)
			}
		}
		if last = strings.Contains(text, "(%r"); last && strings.Contains(text, "(%r"+thread+")") {
			last = false
			others++
		}
		if strings.HasPrefix(strings.TrimSpace(text), "j") {
			break
		}
	}
	if diff := cmp.Diff([]language.Range{{Low: loop.Low, High: want}}, l.entering); diff != "" || others == 0 {
		t.Errorf("%s\n%d other stores to the thread in\n%s", diff, others, out)
	}
}
