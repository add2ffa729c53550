package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// docTests are the tests of the documentation that notice a component or a command
// without a page.
const docTests = "^Test(Components|ComponentIndex|Commands|ShellCommands|River|Links|Paths|Index|MetricNames|Outcomes)$"

const addingPage = "docs/architecture/adding.md"

// recipe is a section of docs/architecture/adding.md, followed for an example.
type recipe struct {
	section   string
	example   string            // folder of the new files, in testdata/adding; "" if there are none
	words     map[string]string // what the words in capitals stand for in the example
	edits     []edit            // of files that are there
	generated []string          // patterns of the files that generate writes
	generate  func(t *testing.T, tree string)
	check     func(t *testing.T, tree string)
}

// edit adds lines to a file.
type edit struct {
	file  string
	after string // the line before, without white space around it; "" for the end of the file
	text  string
}

func recipes() []recipe {
	return []recipe{
		{
			section: "A component",
			example: "component",
			words:   map[string]string{"GROUP": "discovery", "NAME": "list"},
			edits: []edit{
				{"component/all/all.go", `"github.com/headwater/headwater/component/discovery/kubernetes"`,
					`"github.com/headwater/headwater/component/discovery/list"`},
				{"component/all/all.go", "kubernetes.Registration(),", "list.Registration(),"},
				{"docs/reference/components/README.md",
					"| [`discovery.kubernetes`](discovery.kubernetes.md) | Finds the objects of a Kubernetes cluster. |",
					"| [`discovery.list`](discovery.list.md) | Makes targets from a list of addresses. |"},
				{"CHANGELOG.md", "", "- `discovery.list` makes targets from a list of addresses."},
			},
			check: checkComponent,
		},
		{
			section: "A command",
			example: "command",
			words:   map[string]string{"NAME": "components"},
			edits: []edit{
				{"cli/cli.go", "unwindTableCommand(),", "componentsCommand(),"},
				{"docs/reference/cli.md", "", "\n## headwater components\n\n```sh\nheadwater components\n```\n\n" +
					"<!-- flags of components -->\n\nList the components that a configuration may use.\n\n<!-- end -->"},
				{"CHANGELOG.md", "", "- `headwater components` lists the components."},
			},
			check: checkCommand,
		},
		{
			section: "A language runtime",
			example: "language",
			words:   map[string]string{"NAME": "toy"},
			edits: []edit{
				{"ebpf/language/all/languages.go", `"github.com/headwater/headwater/ebpf/language/jvm"`,
					`"github.com/headwater/headwater/ebpf/language/toy"`},
				{"ebpf/language/all/languages.go", "jvm.New(),", "toy.Language{},"},
				{"component/pyroscope/ebpf/arguments.go",
					"V8Enabled      bool `river:\"v8_enabled,attr,optional\" language:\"V8\"`",
					"\tToyEnabled bool `river:\"toy_enabled,attr,optional\" language:\"toy\"`"},
				{"docs/reference/components/pyroscope.ebpf.md",
					"| `v8_enabled` | bool | `true` | Show [functions of JavaScript](../../languages/javascript.md) in node. |",
					"| `toy_enabled` | bool | `true` | Show functions of Toy. |"},
				{"docs/architecture/runtimes.md",
					"| Go | `.gopclntab`, which stripped programs keep | the same; inlined calls and lines too |",
					"| Toy | frame pointers | the runtime's data |"},
				{"CHANGELOG.md", "", "- Code that Toy makes has names."},
			},
			check: checkLanguage,
		},
		{
			section: "A label of samples",
			edits: []edit{
				{"ebpf/profile/labels.go", "var sampleLabels = []sampleLabel{",
					"\t{\"exec\", func(value []byte, _ *aggregate, s *sampler.Sample) []byte {\n" +
						"\t\treturn strconv.AppendUint(value, uint64(s.Exec), 10)\n\t}},"},
				{"component/pyroscope/ebpf/arguments.go", "// The labels of samples; all but pid_label are Headwater's own. " +
					"The tag label has the name, see profile.LabelNames.",
					"\tExecLabel bool `river:\"exec_label,attr,optional\" label:\"exec\"`"},
				{"docs/reference/components/pyroscope.ebpf.md", "| `pid_label` | bool | `false` | Give samples a label `pid`. |",
					"| `exec_label` | bool | `false` | Give samples a label `exec`. |"},
				{"CHANGELOG.md", "", "- `exec_label` adds the number of the program."},
			},
			check: checkLabel,
		},
		counterRecipe(),
		outcomeRecipe(),
	}
}

// counterRecipe adds a counter of the frames in the kernel.
func counterRecipe() recipe {
	return recipe{
		section: "A counter",
		edits: []edit{
			{"ebpf/profile/stats.go", "Profiled uint64            // samples in collected profiles",
				"\tKernelFrames uint64 // frames in the kernel"},
			{"ebpf/profile/stats.go", "func(s *Stats) *map[string]uint64 { return &s.Outcomes }),",
				"\t\tcounter.One(counter.Total, \"pyroscope_ebpf_kernel_frames_total\", \"kernel_frames\",\n" +
					"\t\t\t\"Frames in the kernel.\",\n\t\t\tfunc(s *Stats) *uint64 { return &s.KernelFrames }),"},
			{"ebpf/profile/stats.go", "profiled uint64", "\tkernelFrames uint64"},
			{"ebpf/profile/stats.go", "c.outcomes[s.Outcome]++", "\tc.kernelFrames += uint64(len(s.Kernel))"},
			{"ebpf/profile/stats.go", "out.Profiled, out.Outcomes = c.profiled, map[string]uint64{}",
				"\tout.KernelFrames = c.kernelFrames"},
			{"component/pyroscope/ebpf/debuginfo.go",
				"Ignored          uint64            `river:\"samples_ignored,attr,optional\"`",
				"\tKernelFrames uint64 `river:\"kernel_frames,attr,optional\"`"},
			{"CHANGELOG.md", "", "- `pyroscope_ebpf_kernel_frames_total` counts frames in the kernel."},
		},
		generated: []string{"component/pyroscope/ebpf/testdata/counters.txt", "docs/reference/metrics.md"},
		generate: func(t *testing.T, tree string) {
			run(t, tree, "go", "test", "./component/pyroscope/ebpf", "-run", "^TestCountersShown$", "-update")
			run(t, tree, "go", "test", "./integration/docs", "-run", "^TestMetrics$", "-update")
		},
		check: checkCounter,
	}
}

// outcomeRecipe adds an outcome for a frame of more than a terabyte.
func outcomeRecipe() recipe {
	return recipe{
		section: "An outcome",
		edits: []edit{
			{"bpf/abi/rows.h",
				"OUTCOME_NO_CALL = 15,          /* no call precedes the return address that a rule by analysis has found */",
				"\tOUTCOME_FRAME_TOO_LARGE = 16,  /* the CFA is more than a terabyte above sp */"},
			{"bpf/unwind/step.h", "return OUTCOME_NO_PROGRESS;",
				"\tif (cfa > u->regs.sp && cfa - u->regs.sp > 1ULL << 40)\n\t\treturn OUTCOME_FRAME_TOO_LARGE;"},
			{"ebpf/unwind/outcome.go",
				"NoCall                         // no call precedes the return address that a rule by analysis found",
				"\tFrameTooLarge                  // the CFA is more than a terabyte above sp"},
			{"ebpf/unwind/outcome.go", `return "not_collected"`,
				"\tcase FrameTooLarge:\n\t\treturn \"frame_too_large\""},
			{"ebpf/unwind/step.go", "return NoProgress",
				"\t}\n\tif cfa > s.regs.SP && cfa-s.regs.SP > 1<<40 {\n\t\treturn FrameTooLarge"},
			{"ebpf/unwind/step_test.go", "leaf, NoProgress},",
				"\t\t\"frame of two terabytes\": {x86, WideRule{CFA: CFAFP, CFAOff: 16}, Regs{SP: 0x7000, FP: 1 << 41}, nil,\n" +
					"\t\t\tRegs{SP: 0x7000, FP: 1 << 41}, FrameTooLarge},"},
			{"ebpf/unwind/outcome.go", `return "The unwind rule is wrong: it led down the stack."`,
				"\tcase FrameTooLarge:\n\t\treturn \"A frame was too large to be true.\""},
			{"docs/troubleshooting.md",
				"| `task_32bit` | a 32-bit program whose stack was not copied; on arm64, any 32-bit program | " +
					"see `pyroscope_ebpf_stacks_not_copied_total`; arm64: not supported |",
				"| `frame_too_large` | a frame of more than a terabyte: CFI is wrong there | |"},
			{"CHANGELOG.md", "", "- Stacks with a frame of more than a terabyte end with `frame_too_large`."},
		},
		generated: []string{"ebpf/kernel/profiler_*_bpfel.*"},
		generate: func(t *testing.T, tree string) {
			need.Tools(t, "clang-19", "llvm-strip-19", "/usr/include/bpf/bpf_helpers.h")
			run(t, tree, "go", "generate", "./ebpf/kernel")
		},
		check: checkOutcome,
	}
}

// TestAdding follows the lists of files of docs/architecture/adding.md in a copy of the tree. In make test it builds
// and tests one example, but uses the lists and the edits of all examples.
func TestAdding(t *testing.T) {
	need.Tools(t, "go")
	page, err := os.ReadFile(filepath.Join("../..", addingPage))
	require.NoError(t, err)
	all := testkit.IsNightly()
	for i, r := range recipes() {
		t.Run(r.section, func(t *testing.T) {
			isBuilt := all || i == 0
			tree := t.TempDir()
			copyTree(t, tree, "../..")
			require.Equal(t, r.listed(t, string(page)), r.apply(t, tree, isBuilt),
				"files that %s lists, and those of the example", addingPage)
			if !isBuilt {
				return
			}
			run(t, tree, "go", "build", "-buildvcs=false", "-o", "bin/headwater", ".")
			run(t, tree, "go", "test", "-run", docTests, "./integration/docs")
			run(t, tree, "go", "test", "-run", "^TestImports$", "./integration/tree")
			r.check(t, tree)
		})
	}
}

// listed returns the files in the table of the recipe's section, sorted.
func (r *recipe) listed(t *testing.T, page string) []string {
	t.Helper()
	_, section, found := strings.Cut(page, "\n## "+r.section+"\n")
	require.True(t, found, "%s has no section %q", addingPage, r.section)
	section, _, _ = strings.Cut(section, "\n## ")
	var files []string
	for line := range strings.Lines(section) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			for word, value := range r.words {
				name = strings.ReplaceAll(name, word, value)
			}
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files
}

// apply adds the example to a tree, with what commands generate or without. It returns the
// files that are new or changed, sorted.
func (r *recipe) apply(t *testing.T, tree string, generates bool) []string {
	t.Helper()
	var files []string
	if r.example != "" {
		files = copyTree(t, tree, filepath.Join("testdata/adding", r.example))
	}
	for _, e := range r.edits {
		e.apply(t, tree)
		files = append(files, e.file)
	}
	if r.generate != nil && generates {
		r.generate(t, tree)
	}
	for _, pattern := range r.generated {
		if generates {
			requireChanged(t, tree, pattern)
		}
		files = append(files, pattern)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// requireChanged requires that the files of a pattern have changed.
func requireChanged(t *testing.T, tree, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(tree, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name, err := filepath.Rel(tree, file)
		require.NoError(t, err)
		before, err := os.ReadFile(filepath.Join("../..", name))
		require.NoError(t, err)
		after, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotEqual(t, before, after, name)
	}
}

func (e *edit) apply(t *testing.T, tree string) {
	t.Helper()
	path := filepath.Join(tree, e.file)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	at := len(lines)
	if e.after != "" {
		at = 1 + slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == e.after })
		require.Positive(t, at, "%s has no line %q", e.file, e.after)
	}
	lines = slices.Insert(lines, at, e.text)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// checkComponent runs the component's own test, and configurations with it.
func checkComponent(t *testing.T, tree string) {
	run(t, tree, "go", "test", "./component/discovery/list")
	config := filepath.Join(tree, "list.river")
	validate := func(addresses string) (string, error) {
		text := fmt.Sprintf("discovery.list \"x\" {\n\taddresses = %s\n}\n\npyroscope.scrape \"x\" {\n"+
			"\ttargets    = discovery.list.x.targets\n\tforward_to = []\n}\n", addresses)
		require.NoError(t, os.WriteFile(config, []byte(text), 0o644))
		out, err := exec.Command(filepath.Join(tree, "bin/headwater"), "validate", config).CombinedOutput()
		return string(out), err
	}
	out, err := validate(`["127.0.0.1:80"]`)
	require.NoError(t, err, out)
	out, err = validate(`[]`)
	require.Error(t, err)
	require.Contains(t, out, "list.river:2:2: addresses must have at least one address")
}

// checkCommand runs the command.
func checkCommand(t *testing.T, tree string) {
	require.Contains(t, run(t, tree, "bin/headwater", "components"), "\npyroscope.ebpf\n")
}

// checkLanguage runs the language's own test, and the tests of the argument that switches it.
func checkLanguage(t *testing.T, tree string) {
	run(t, tree, "go", "test", "./ebpf/language/toy")
	run(t, tree, "go", "test", "-run", "^TestLanguageSwitches$", "./component/pyroscope/ebpf")
}

// checkLabel runs the tests of the argument, and has the command refuse another label.
func checkLabel(t *testing.T, tree string) {
	run(t, tree, "go", "test", "-run", "^TestLabelSwitches$", "./component/pyroscope/ebpf")
	require.Contains(t, run(t, tree, "bin/headwater", "record", "--help"), "exec, pid, thread_name")
}

// checkCounter runs what goes by the table of counters, and looks for the row.
func checkCounter(t *testing.T, tree string) {
	run(t, tree, "go", "test", "-run", "^Test(CountersShown|DebugAttributes)$", "./component/pyroscope/ebpf")
	run(t, tree, "go", "test", "-run", "^TestMetrics$", "./integration/docs")
	page, err := os.ReadFile(filepath.Join(tree, "docs/reference/metrics.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "\n| `pyroscope_ebpf_kernel_frames_total` |  | Frames in the kernel. |\n")
}

// checkOutcome compares the walks and numbers of Go and C, and looks for the texts.
func checkOutcome(t *testing.T, tree string) {
	run(t, tree, "go", "test", "-run", "^Test(Step|StepParity|OutcomeNames)$", "./ebpf/unwind")
	run(t, tree, "go", "test", "-run", "^TestSharedNumbers$", "./ebpf/kernel")
	run(t, tree, "go", "test", "-run", "^TestOutcomeTexts$", "./flame/server")
}

// run runs a command in a tree and returns its output.
func run(t *testing.T, tree string, name string, args ...string) string {
	t.Helper()
	if strings.Contains(name, "/") {
		name = filepath.Join(tree, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath") // the folder differs each time; results are cached
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", cmd, out)
	return string(out)
}

// copyTree copies the files of a source tree, but not what git and builds leave in
// it, and returns their names.
func copyTree(t *testing.T, to, from string) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch info, err := entry.Info(); {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "data-agent"}, name):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !entry.Type().IsRegular() || info.Size() > maxSource:
			return nil
		default:
			text, err := os.ReadFile(path)
			files = append(files, filepath.ToSlash(name))
			return errors.Join(err, os.WriteFile(filepath.Join(to, name), text, info.Mode()))
		}
	}))
	return files
}

// maxSource is more than any file of the tree has, and less than a program.
const maxSource = 8 << 20
