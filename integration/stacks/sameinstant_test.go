package stacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// instantReport is the relevant part of the report of integration/lab/instant.
type instantReport struct {
	instantProgram
	ByCommand    map[string]instantProgram `json:"by_command"`
	NoSample     int                       `json:"signals_without_sample"`
	OtherInstant int                       `json:"signals_at_another_instruction"`
}

type instantProgram struct {
	Stacks  int            `json:"stacks"`
	Whole   int            `json:"stacks_whole"`
	Partial int            `json:"stacks_in_part"`
	Frames  int            `json:"frames"`
	Agreed  int            `json:"frames_agreed"`
	Differ  map[string]int `json:"stacks_differ"`
}

// problems returns the problems of a run: frames that differ from libgcc's, incomplete stacks, or too few comparisons.
func (r *instantReport) problems(err error) (problems []string) {
	if err != nil {
		problems = append(problems, err.Error())
	}
	if r.Agreed != r.Frames || len(r.Differ) > 0 || r.OtherInstant > 0 {
		problems = append(problems, fmt.Sprintf("%d of %d frames agree, %v stacks differ, %d in the sampled instruction",
			r.Agreed, r.Frames, r.Differ, r.OtherInstant))
	}
	if ended := r.Whole + r.Partial; ended < r.Stacks*9/10 {
		problems = append(problems, fmt.Sprintf("of %d stacks %d are as long as libgcc's", r.Stacks, ended))
	}
	if r.NoSample > r.Stacks/20 {
		problems = append(problems, fmt.Sprintf("%d signals had no sample, %d had", r.NoSample, r.Stacks))
	}
	return problems
}

// instant runs integration/lab/instant over a shell script.
func instant(t testing.TB, binary, script string) (r instantReport, text string, err error) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.Command(binary, "-json", report, "--", "sh", "-c", script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	b, readErr := os.ReadFile(report)
	if readErr != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out.String())
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r, out.String(), err
}

// preloadable leaves out the rules whose programs take no preloaded library: they have the
// dynamic linker of another C library or word size, or cannot see the library's file.
func preloadable(all []rule) []rule {
	return slices.DeleteFunc(all, func(r rule) bool {
		return strings.HasPrefix(r.name, "hwmusl") || strings.HasPrefix(r.name, "hw32") || r.name == "hwchroot"
	})
}

// quoted writes a command for a shell.
func quoted(cmd *exec.Cmd) string {
	var words []string
	for _, arg := range append([]string{cmd.Path}, cmd.Args[1:]...) {
		words = append(words, "'"+strings.ReplaceAll(arg, "'", `'\''`)+"'")
	}
	line := strings.Join(words, " ")
	if cmd.SysProcAttr != nil { // its mounts are private
		line = "unshare -m " + line
	}
	if cmd.Dir != "" {
		line = fmt.Sprintf("cd '%s' && %s", cmd.Dir, line)
	}
	return "(" + line + ") >/dev/null 2>&1 </dev/null"
}

// inFours runs commands four at a time.
func inFours(commands []string) string {
	var script strings.Builder
	for _, lane := range []int{0, 1, 2, 3} {
		script.WriteString("(\n")
		for i := lane; i < len(commands); i += 4 {
			script.WriteString(commands[i] + "\n")
		}
		script.WriteString("true) &\n")
	}
	return script.String() + "wait\n"
}

// inSeconds changes how long the program of a rule runs.
func inSeconds(cmd *exec.Cmd, seconds string) *exec.Cmd {
	for i, arg := range cmd.Args {
		if arg == slotSeconds || arg == endless {
			cmd.Args[i] = seconds
		}
	}
	return cmd
}

// TestSameInstant compares the stacks of many programs with the stacks that libgcc's unwinder finds in the same thread
// at the same instruction. It runs alone: its programs have the names of the programs of TestRules.
func TestSameInstant(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc", "g++", "fio", "xz", "node", "openssl", "clang-19", "rustc")
	all, built, slot, seconds, frames := rules(), programs(), slotSeconds, "2", 20000
	commands := []string{"hwthrow", "hwlazy", "hwassembled", "hwcoroutine", "hwaltstack", "hwhuge", "hwrust",
		"openssl", "fio", "xz"}
	installed := []string{
		"fio --name=load --ioengine=libaio --rw=randread --bs=64k --size=16m --filename=%[1]s/fio.data " +
			"--time_based --runtime=2",
		`head -c 4000000 "$(go env GOROOT)/bin/go" | xz -3`,
	}
	if testkit.IsNightly() {
		commands = append(commands, "clang-19", "cc1plus", "node")
		installed = append(installed,
			"clang-19 -w -O2 -std=c++17 -c -o %[1]s/clang.o ../lab/bench/testdata/build/containers.cc",
			"g++ -w -O2 -std=c++17 -c -o %[1]s/gcc.o ../lab/bench/testdata/build/text.cc",
			"rustc -O --edition 2021 -o %[1]s/rust testdata/rules/rust.rs",
			`node -e 'for (let i = 0; i < 40; i++) JSON.parse(JSON.stringify([...Array(20000).keys()].map(String).sort()))'`)
	} else {
		wanted := func(name string) bool { return slices.Contains(commands, name) || name == "hwprologue" }
		all = slices.DeleteFunc(all, func(r rule) bool { return !wanted(r.name) })
		built = slices.DeleteFunc(built, func(p program) bool { return !wanted(p.name) })
		slot, seconds, frames = "0.2", "0.5", 10000
	}
	var script []string
	for _, r := range preloadable(all) {
		script = append(script, quoted(inSeconds(r.start(t, t.TempDir()), slot)))
	}
	for _, p := range built {
		if !strings.HasPrefix(p.name, "hwstatic") {
			script = append(script, quoted(exec.Command(p.build(t), seconds)))
		}
	}
	dir := t.TempDir()
	for _, line := range installed {
		script = append(script, "("+strings.ReplaceAll(line, "%[1]s", dir)+") >/dev/null 2>&1 </dev/null")
	}
	r, text, err := instant(t, build(t, "./integration/lab/instant"), inFours(script))
	t.Log(text)
	if problems := r.problems(err); len(problems) > 0 || r.Frames < frames {
		t.Errorf("%d frames compared, want %d or more; %v", r.Frames, frames, problems)
	}
	for _, command := range commands {
		if p := r.ByCommand[command]; p.Frames < 100 {
			t.Errorf("%d frames of %s compared, want 100 or more", p.Frames, command)
		}
	}
}

// TestSameInstantOnSmallStack lets the handler start on a signal stack that is too small for the unwinder, like the
// stacks of Rust's threads on CPUs with large signal frames.
func TestSameInstantOnSmallStack(t *testing.T) {
	testkit.Nightly(t, "TestSameInstant compares signal frames of many programs")
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc")
	small := program{name: "hwsmallstack", source: "smallstack.c"}
	r, text, err := instant(t, build(t, "./integration/lab/instant"), "'"+small.build(t)+"' 1")
	if problems := r.problems(err); len(problems) > 0 || r.Frames < 100 {
		t.Errorf("%d frames compared, want 100 or more; %v\n%s", r.Frames, problems, text)
	}
}

// TestSameInstantNotices demands that the comparison notices a profiler with a defect, even
// in code that the reference of headwater verify may share with it.
func TestSameInstantNotices(t *testing.T) {
	testkit.Nightly(t, "it tests how TestSameInstant compares, with profilers that have defects")
	need.Root(t)
	need.Tools(t, "gcc", "g++")
	for name, m := range mutations() {
		t.Run(name, func(t *testing.T) {
			r, text, err := instant(t, buildWith(t, "./integration/lab/instant", &m),
				"g++ -w -O2 -std=c++17 -c -o /dev/null ../lab/bench/testdata/build/text.cc")
			problems := r.problems(err)
			t.Log(problems)
			if r.Stacks < 100 || len(problems) == 0 {
				t.Errorf("the defect went unnoticed in %d stacks\n%s", r.Stacks, text)
			}
		})
	}
}
