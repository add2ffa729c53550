package stacks

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// rule is a program whose unwinding needs a rule that profilers get wrong, and what its stacks
// must be like, by its source or by another tool.
type rule struct {
	name  string                                   // of the rule
	start func(t testing.TB, dir string) *exec.Cmd // builds it in a folder of its own
	want  []stacksOf
	// It runs before the profiler does, and is ready for that when this holds.
	early   func(t testing.TB, pid int) bool
	repeats string // the rule of the same kind that make test has
}

// stacksOf describes the stacks of processes of one name. A stack is written
// as its user frames, the outermost first, separated by spaces: the function's
// name, after its file's and a colon if that is not the program. A function
// without a name is +0xADDRESS. In a pattern, ROOT stands for the frames from
// _start to main, LIBC for one of the C library, LD for one of the dynamic
// linker, PLT for one without a name in the program, VDSO for one of the vdso.
type stacksOf struct {
	comm    string
	program string // base name of its file; "": comm
	names   string // a file in the program's folder that names the functions of the program
	// The name of a program that is in a memfd, before Linux 6.14.
	before614 string
	// Every stack is of this form, but for those outside main: the dynamic linker
	// before it, exit handlers after it.
	form string
	// Each of these stacks must match the form, for at least this percentage of a slot of CPU time; 0 means once. The
	// program gives each kind of work its own slot.
	ofSlot map[string]int
	depth  int // instead: the total number of frames, from main through down() to one more
}

// outside is the form of stacks outside main: in the dynamic linker and its callees, in exit handlers, and without user
// part, after execve or exit have removed the program. GCC's start files have no CFI. The form also includes the stacks
// in which these programs read their clock.
const outside = `|LD(?: \S+)*|_start|_start LIBC(?: LIBC)?(?: (?:LIBC|LD|PLT|\w+))*` +
	`|(?:\S+ )*(?:cpu_time|_Z8cpu_timev)(?: (?:LIBC|VDSO|PLT))*` +
	`|_start(?: (?:LIBC|LD))* (?:\S+:)?(?:_init|_fini|frame_dummy|` +
	`(?:de)?register_tm_clones|__do_global_dtors_aux)(?: \S+)*`

// expand replaces the abbreviations of stacksOf.
func (s stacksOf) expand(form string) *regexp.Regexp {
	form = strings.ReplaceAll(form, "ROOT", "_start LIBC LIBC main")
	return regexp.MustCompile(strings.NewReplacer(
		"LIBC", `libc\.so\.6:\S+`,
		"LD", `ld-linux-x86-64\.so\.2:\S+`,
		"PLT", `\+0x[0-9a-f]+`,
		"VDSO", `\[vdso\]:\S+`,
	).Replace(form))
}

// TestRules runs the programs of all rules under one profiler, four at a time, and compares their stacks with the
// expected ones.
func TestRules(t *testing.T) {
	t.Parallel()
	all := rules()
	if !testkit.IsNightly() {
		all = representatives(t, all)
	}
	runRules(t, sharedHost(t), all)
}

// TestRules32Bit does so with 32-bit programs.
func TestRules32Bit(t *testing.T) {
	t.Parallel()
	need.Root(t)
	rig.Need32Bit(t)
	runRules(t, sharedHost(t), rules32Bit())
}

// TestManyMappings profiles processes with 12,000 mappings of one file: no mapping is lost,
// and the profiler keeps up.
func TestManyMappings(t *testing.T) {
	testkit.Nightly(t, "TestRules has a file with two mappings; 12,000 keep a machine busy")
	need.Root(t)
	many := func(name, seconds string) rule {
		return rule{name: name, start: runs(name, "rules/mappings.c").forSeconds(seconds), want: []stacksOf{{
			comm:   name,
			form:   `ROOT(?: call(?: island(?: burn)?)?| LIBC| VDSO| PLT)?`,
			ofSlot: map[string]int{"call island burn$": 60}, // the slot is only for them; mmap adds more
		}}}
	}
	hasThem := func(t testing.TB, pid int) bool {
		return strings.Count(rig.ReadFile(t, fmt.Sprintf("/proc/%d/maps", pid)), "\n") > 12000
	}
	all := []rule{many("hwmappings", "1"), plainRule("hwbeside", plainProgram("hwbeside")),
		many("hwmappingsold", endless).beforeProfiler(hasThem)}
	host := newProfiler(t, all)
	host.start(t, "")
	runRules(t, host, all)
}

// runRules runs programs under a profiler and judges their stacks.
func runRules(t *testing.T, host *sharedProfiler, all []rule) {
	t.Helper()
	kernel := rig.KernelSymbols(t)
	dirs := profileRules(t, host, all, kernel)
	if dropped := host.Metric(t, "pyroscope_write_dropped_profiles_total"); dropped != 0 {
		t.Errorf("headwater has dropped %v profiles", dropped)
	}
	var together []rig.Stack
	for i, r := range all {
		t.Run(r.name, func(t *testing.T) {
			for _, s := range r.want {
				of := s.found(host)
				for _, problem := range s.check(t, of, dirs[i], kernel) {
					t.Error(problem)
				}
				together = append(together, of...)
			}
		})
	}
	inTime(t, together)
}

// profileRules runs the commands of rules under a profiler, four at a time, until all have ended and their profiles
// have arrived. The kernel's clock may stand for a moment: while the profiler counts samples as lost, programs with too
// few samples run again, at most five times. profileRules returns where the commands were built.
func profileRules(t testing.TB, host *sharedProfiler, all []rule, kernel map[string]bool) (dirs []string) {
	t.Helper()
	dirs = make([]string, len(all))
	commands := make([]*exec.Cmd, len(all))
	for i, r := range all {
		if r.early == nil {
			dirs[i] = t.TempDir()
			commands[i] = r.start(t, dirs[i])
		}
	}
	for i, r := range all {
		if r.early != nil {
			program := host.run(t, r.name)
			dirs[i] = program.dir
			host.until(t, r.want[0].comm, slot)
			program.Kill(t)
		}
	}
	lost := host.lostSamples(t)
	runCommands(t, commands)
	host.untilNow(t)
	for range 5 {
		again := make([]*exec.Cmd, len(all))
		short := false
		for i, r := range all {
			lacks := func(s stacksOf) bool { return len(s.lacks(t, s.found(host), dirs[i], kernel)) > 0 }
			if commands[i] != nil && slices.ContainsFunc(r.want, lacks) {
				again[i], short = r.start(t, dirs[i]), true
				t.Logf("%s has too few samples", r.name)
			}
		}
		before := lost
		if lost = host.lostSamples(t); !short || lost == before {
			return dirs
		}
		runCommands(t, again)
		host.untilNow(t)
	}
	return dirs
}

// runCommands runs the commands that are not nil, four at a time, to their end.
func runCommands(t testing.TB, commands []*exec.Cmd) {
	t.Helper()
	processes := make([]*rig.Process, len(commands))
	running := make(chan struct{}, 4)
	for i, command := range commands {
		if command == nil {
			continue
		}
		running <- struct{}{}
		p := rig.Start(t, command)
		processes[i] = p
		go func() {
			<-p.Done
			<-running
		}()
	}
	for i, p := range processes {
		if p == nil {
			continue
		}
		if code := p.Wait(t, 5*time.Minute); code != 0 {
			t.Errorf("%s: exit code %d: %s", commands[i], code, p.Output)
		}
	}
}

// found returns the stacks that a profiler has found so far.
func (s stacksOf) found(host *sharedProfiler) []rig.Stack {
	all := host.of("host", s.comm)
	if s.before614 != "" {
		all = append(all, host.of("host", s.before614)...)
	}
	return all
}

// cutShort matches stacks that may be up to 5 % of all rules', and 20 % of one's: its program runs for 125 samples, of
// which a profiler that comes 25 ms late misses 5 %. They are of an instant when
// the profiler did not yet know the process or its mapping, and the copy of the stack did not
// reach the root; or their leaf has a rule that needs a register which the record of such a
// miss does not have; or they are of an instant after fork, when the kernel replaces the
// stack's page by a copy.
var cutShort = regexp.MustCompile(`^\[incomplete: (?:(?:process_unknown|no_mapping|page_missing)\b` +
	`|unsupported_rule in [^]]*\] \S+$|unreadable_stack in [^]]*\] \S+[fF]ork$)`)

// inTime leaves out the stacks that are cut short. They may be a twentieth of the time.
func inTime(t testing.TB, all []rig.Stack) []rig.Stack {
	t.Helper()
	late := func(s rig.Stack) bool { return cutShort.MatchString(strings.Join(s.Names()[1:], " ")) }
	rest := slices.DeleteFunc(slices.Clone(all), late)
	if cut := rig.Total(all) - rig.Total(rest); cut > rig.Total(all)/20 {
		t.Errorf("%d of %d ms are cut short without tables or mappings:\n%s", cut/1e6, rig.Total(all)/1e6, brief(all, 5))
	}
	return rest
}

// check returns the problems of stacks.
func (s stacksOf) check(t testing.TB, all []rig.Stack, dir string, kernel map[string]bool) (problems []string) {
	t.Helper()
	t.Logf("%s: %d ms", s.comm, rig.Total(all)/1e6)
	if rig.Total(all) < 30e6 {
		return []string{"only " + brief(all, 5) + " of " + s.comm + " are in the profile"}
	}
	if s.depth > 0 {
		return s.checkDepth(all, kernel)
	}
	form, around := s.expand("^(?:"+s.form+")$"), s.expand("^(?:"+outside+")$")
	const most = 5
	var strange, late []rig.Stack
	symbols := s.symbols(t, dir)
	for _, found := range all {
		text := s.text(found.Frames[1:firstKernelFrame(found, kernel)], symbols)
		switch {
		case form.MatchString(text):
		case cutShort.MatchString(text):
			late = append(late, found)
		case !around.MatchString(text):
			strange = append(strange, found)
		}
	}
	// A few samples may hit what no form foresees, code of the start of a program
	// that has no CFI for example; a rule that is wrong shows in far more.
	if rig.Total(strange) > max(10e6, rig.Total(all)/33) {
		problems = append(problems, fmt.Sprintf("%d ms are in stacks that cannot be:\n%s", rig.Total(strange)/1e6,
			brief(strange, most)))
	}
	if rig.Total(late) > max(10e6, rig.Total(all)/5) {
		problems = append(problems, fmt.Sprintf("%d ms are cut short without tables or mappings:\n%s",
			rig.Total(late)/1e6, brief(late, most)))
	}
	return append(problems, s.lacks(t, all, dir, kernel)...)
}

// lacks returns the parts of ofSlot that have too little time.
func (s stacksOf) lacks(t testing.TB, all []rig.Stack, dir string, kernel map[string]bool) (problems []string) {
	t.Helper()
	form, symbols := s.expand("^(?:"+s.form+")$"), s.symbols(t, dir)
	parts, spent := map[string]*regexp.Regexp{}, map[string]int64{}
	for part := range s.ofSlot {
		parts[part] = s.expand(part)
	}
	for _, found := range all {
		text := s.text(found.Frames[1:firstKernelFrame(found, kernel)], symbols)
		if !form.MatchString(text) {
			continue
		}
		for part, pattern := range parts {
			if pattern.MatchString(text) {
				spent[part] += found.Value
			}
		}
	}
	for part, percent := range s.ofSlot {
		if spent[part] < slot.Nanoseconds()*int64(percent)/100 || spent[part] == 0 {
			problems = append(problems, fmt.Sprintf("%d ms are in %s, want %d %% of %v", spent[part]/1e6, part, percent, slot))
		}
	}
	return problems
}

// symbols returns the table of the file that names frames, by nm.
func (s stacksOf) symbols(t testing.TB, dir string) []rig.Symbol {
	if s.names == "" {
		return nil
	}
	return rig.SymbolTable(t, filepath.Join(dir, s.names), "")
}

// text writes frames as stacksOf says.
func (s stacksOf) text(frames []rig.Frame, symbols []rig.Symbol) string {
	program := s.program
	if program == "" {
		program = s.comm
	}
	var words []string
	for _, f := range frames {
		file := strings.TrimSuffix(filepath.Base(f.File), " (deleted)")
		name := f.Name
		if offset, ok := strings.CutPrefix(name, file+"+0x"); ok {
			name = "+0x" + offset
			if at := vaddrOf(offset); file == program {
				i := slices.IndexFunc(symbols, func(s rig.Symbol) bool { return s.Start <= at && at < s.End })
				if i >= 0 {
					name = symbols[i].Name
				}
			}
		}
		if file != program && f.File != "" {
			name = file + ":" + name
		}
		words = append(words, name)
	}
	return strings.Join(words, " ")
}

// shownFrames is how many frames of a stack Pyroscope takes at most, and walkedFrames how
// many user frames the profiler walks at most.
const (
	shownFrames  = 1000
	walkedFrames = 1024
)

var framesCut = regexp.MustCompile(`^\[(\d+) frames cut: Pyroscope keeps 1,000\]$`)

// brief shows stacks without the middle of deep ones.
func brief(all []rig.Stack, most int) string {
	const ends = 12
	short := slices.Clone(all)
	for i, s := range short {
		if n := len(s.Functions); n > 2*ends {
			short[i].Functions = slices.Concat(s.Functions[:ends], []string{fmt.Sprintf("(%d more)", n-2*ends)},
				s.Functions[n-ends:])
		}
	}
	return rig.Show(short, most)
}

// checkDepth demands stacks of exactly s.depth user frames at the leaf. One frame stands for
// those that the server does not take, and says how many they are.
func (s stacksOf) checkDepth(all []rig.Stack, kernel map[string]bool) (problems []string) {
	var deep []rig.Stack
	var other []rig.Stack
	for _, found := range all {
		user := found.Frames[1:firstKernelFrame(found, kernel)]
		if len(user) == 0 || user[len(user)-1].Name != "burn" || cutShort.MatchString(user[0].Name) {
			other = append(other, found) // on the way down or up
			continue
		}
		deep = append(deep, found)
		counted := 0
		for _, f := range user {
			if match := framesCut.FindStringSubmatch(f.Name); match != nil {
				n, _ := strconv.Atoi(match[1])
				counted += n - 1
			}
			counted++
		}
		text := s.text(user, nil)
		want, form := s.depth, `^ROOT(?: down)+(?: \[\d+ frames cut: Pyroscope keeps 1,000\](?: down)+)? burn$`
		if s.depth > walkedFrames {
			want = 1 + walkedFrames
			form = `^\[incomplete: depth_limit[^]]*\](?: down)+ \[\d+ frames cut: Pyroscope keeps 1,000\](?: down)+ burn$`
		}
		if counted != want || !s.expand(form).MatchString(text) {
			problems = append(problems, fmt.Sprintf("%d frames, want %d: %s", counted, want, brief([]rig.Stack{found}, 1)))
		}
	}
	if rig.Total(deep) < rig.Total(all)*8/10 {
		problems = append(problems, fmt.Sprintf("only %d of %d ms are at the leaf:\n%s", rig.Total(deep)/1e6,
			rig.Total(all)/1e6, brief(other, 5)))
	}
	return problems
}
