package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/trial"
)

// rule is a program that makes the unwinder apply a rule which profilers get
// wrong, and what its stacks must be like: as its source says, or as another
// tool finds them.
type rule struct {
	name  string                                   // of the rule
	early bool                                     // it runs before the profiler does
	start func(t testing.TB, dir string) *exec.Cmd // builds it in a folder of its own
	want  []stacksOf
}

// stacksOf describes the stacks of processes of one name. A stack is written
// as its user frames, the outermost first, separated by spaces: the function's
// name, behind its file's and a colon if that is not the program. A function
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
	// Each of these is in the form of so many percent of the time.
	among map[string]int
	depth int // instead: main, so many frames in all, of which the last but one are all down()
}

// outside is the form of stacks outside main: in the dynamic linker and what it
// calls, in exit handlers, and without user part, when execve has put the old
// program away, or exit has. GCC's start files have no CFI.
const outside = `|LD(?: \S+)*|_start|_start LIBC(?: LIBC)?(?: (?:LIBC|LD|PLT|\w+))*` +
	`|_start(?: (?:LIBC|LD))* (?:\S+:)?(?:_init|_fini|frame_dummy|(?:de)?register_tm_clones|__do_global_dtors_aux)(?: \S+)*`

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

// TestRules runs the programs of all rules under one profiler, four at a
// time, and compares their stacks with what is known of them.
func TestRules(t *testing.T) { trial.Run(t, func(t *trial.T) { runRules(t, rules()) }) }

// TestManyMappings has processes with 12,000 mappings of one file, which must
// neither be lost nor hold up the profiler.
func TestManyMappings(t *testing.T) {
	many := func(name, seconds string) rule {
		return rule{name: name, start: runs(name, "rules/mappings.c").forSeconds(seconds), want: []stacksOf{{
			comm:  name,
			form:  `ROOT(?: call(?: island(?: burn)?)?| LIBC| VDSO| PLT)?`,
			among: map[string]int{"call island burn$": 30}, // the rest is mmap
		}}}
	}
	trial.Run(t, func(t *trial.T) {
		runRules(t, []rule{many("hwmappings", "4"), plainRule("hwbeside", plainProgram("hwbeside")), many("hwmappingsold", "6").beforeProfiler()})
	})
}

func runRules(t *trial.T, all []rule) {
	requireRoot(t)
	server := startPyroscope(t)
	var commands []*exec.Cmd
	var dirs []string
	for _, r := range all {
		dirs = append(dirs, t.TempDir())
		commands = append(commands, r.start(t, dirs[len(dirs)-1]))
	}
	headwaterBinary(t) // is built before anything runs
	slow := slowness()
	for _, cmd := range commands {
		runLonger(cmd, slow)
	}
	processes := make([]*process, len(all))
	for i, r := range all {
		if r.early {
			processes[i] = start(t, commands[i])
		}
	}
	time.Sleep(200 * time.Millisecond)
	profiler := startHeadwater(t, strings.Replace(hostConfig(server.url, "rules", ""), "= 97", "= 249", 1)) // less than the copies of stacks a second
	eventually(t, 20*time.Second, "the profiler takes samples", func() bool {
		return profiler.metric(t, "pyroscope_ebpf_samples_delivered_total") > 0
	})
	running := make(chan struct{}, 4)
	for i, r := range all {
		if r.early {
			continue
		}
		running <- struct{}{}
		p := start(t, commands[i])
		processes[i] = p
		go func() {
			<-p.done
			<-running
		}()
	}
	for i, r := range all {
		if code := processes[i].wait(t, time.Duration(20*slow)*time.Second); code != 0 {
			t.Errorf("%s: exit code %d: %s", r.name, code, processes[i].output)
		}
	}
	time.Sleep(3 * time.Second) // more than an interval
	found := stacks(server.profile(t, cpuProfile, `{service_name="rules"}`, time.Time{}))
	t.Logf("%d ms of the host are in the profile", total(found)/1e6)
	if discarded := server.discarded(t); discarded != "" {
		t.Errorf("the server has refused samples: %s", discarded)
	}
	if dropped := profiler.metric(t, "pyroscope_write_dropped_profiles_total"); dropped != 0 {
		t.Errorf("headwater has dropped %v profiles", dropped)
	}
	kernel := kernelSymbols(t)
	for i, r := range all {
		t.Run(r.name, func(t *trial.T) {
			for _, s := range r.want {
				for _, problem := range s.check(t, slices.Concat(ofCommand(found, s.comm), ofCommand(found, s.before614)), dirs[i], kernel) {
					t.Error(problem)
				}
			}
		})
	}
}

// slowness tells how many seconds it takes now to have a second of CPU time, 1 to 6.
func slowness() int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const burnt = 200 * time.Millisecond
	used := func() time.Duration {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
			return time.Hour
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	begin, end := time.Now(), used()+burnt
	for used() < end {
	}
	return min(int((time.Since(begin)+burnt/2)/burnt), 6)
}

// runLonger multiplies the seconds that a program is told to run, its only argument of one digit.
func runLonger(cmd *exec.Cmd, times int) {
	for i, arg := range cmd.Args {
		if seconds, err := strconv.Atoi(arg); err == nil && 0 < seconds && seconds < 10 {
			cmd.Args[i] = strconv.Itoa(seconds * times)
		}
	}
}

// cutShort is a stack that may be up to 5 % of a rule's: of an instant when the
// profiler had not heard of the process or of its mapping, and the copy of the
// stack did not reach its root; whose leaf has a rule that needs a register which
// the record of such a miss does not carry; or of an instant when the kernel puts
// a copy in the place of the stack's page, after fork.
var cutShort = regexp.MustCompile(`^\[incomplete: (?:(?:process_unknown|no_mapping|page_missing)\b|unsupported_rule in [^]]*\] \S+$|unreadable_stack in [^]]*\] \S+[fF]ork$)`)

// check returns what is wrong with stacks.
func (s stacksOf) check(t testing.TB, all []stack, dir string, kernel map[string]bool) (problems []string) {
	t.Helper()
	t.Logf("%s: %d ms", s.comm, total(all)/1e6)
	if total(all) < 30e6 {
		return []string{"only " + brief(all, 5) + " of " + s.comm + " are in the profile"}
	}
	if s.depth > 0 {
		return s.checkDepth(all, kernel)
	}
	form, around := s.expand("^(?:"+s.form+")$"), s.expand("^(?:"+outside+")$")
	const most = 5
	var strange, late []stack
	share := map[string]int64{}
	inside := int64(0)
	symbols := s.symbols(t, dir)
	for _, found := range all {
		text := s.text(found.frames[1:firstKernelFrame(found, kernel)], symbols)
		if !form.MatchString(text) {
			switch {
			case cutShort.MatchString(text):
				late = append(late, found)
			case !around.MatchString(text):
				strange = append(strange, found)
			}
			continue
		}
		inside += found.value
		for part := range s.among {
			if s.expand(part).MatchString(text) {
				share[part] += found.value
			}
		}
	}
	// A few samples may hit what no form foresees, code of the start of a program
	// that has no CFI for example; a rule that is wrong shows in far more.
	if total(strange) > max(10e6, total(all)/33) {
		problems = append(problems, fmt.Sprintf("%d ms are in stacks that cannot be:\n%s", total(strange)/1e6, brief(strange, most)))
	}
	if total(late) > max(10e6, total(all)/20) {
		problems = append(problems, fmt.Sprintf("%d ms are cut short for want of tables or mappings:\n%s", total(late)/1e6, brief(late, most)))
	}
	for part, percent := range s.among {
		if share[part] < inside*int64(percent)/100 || share[part] == 0 {
			problems = append(problems, part+" is too seldom")
		}
		t.Logf("%s: %d of %d ms", part, share[part]/1e6, inside/1e6)
	}
	return problems
}

// symbols returns the table of the file that names frames, by nm.
func (s stacksOf) symbols(t testing.TB, dir string) []symbol {
	if s.names == "" {
		return nil
	}
	return symbolTable(t, filepath.Join(dir, s.names), "")
}

// text writes frames as stacksOf says.
func (s stacksOf) text(frames []frame, symbols []symbol) string {
	program := s.program
	if program == "" {
		program = s.comm
	}
	var words []string
	for _, f := range frames {
		file := strings.TrimSuffix(filepath.Base(f.file), " (deleted)")
		name := f.name
		if offset, ok := strings.CutPrefix(name, file+"+0x"); ok {
			name = "+0x" + offset
			if at := vaddrOf(offset); file == program {
				i := slices.IndexFunc(symbols, func(s symbol) bool { return s.start <= at && at < s.end })
				if i >= 0 {
					name = symbols[i].name
				}
			}
		}
		if file != program && f.file != "" {
			name = file + ":" + name
		}
		words = append(words, name)
	}
	return strings.Join(words, " ")
}

// shownFrames are the most of a stack that Pyroscope takes; walkedFrames are the
// most user frames that are walked.
const (
	shownFrames  = 1000
	walkedFrames = 1024
)

var truncated = regexp.MustCompile(`^\[truncated (\d+) frames\]$`)

// brief shows stacks without the middle of deep ones.
func brief(all []stack, most int) string {
	const ends = 12
	short := slices.Clone(all)
	for i, s := range short {
		if n := len(s.frames); n > 2*ends {
			short[i].frames = slices.Concat(s.frames[:ends], []frame{{name: fmt.Sprintf("(%d more)", n-2*ends)}}, s.frames[n-ends:])
		}
	}
	return show(short, most)
}

// checkDepth demands stacks of exactly s.depth user frames at the leaf. What the
// server would not take is one frame that says how much it is.
func (s stacksOf) checkDepth(all []stack, kernel map[string]bool) (problems []string) {
	var deep []stack
	var other []stack
	for _, found := range all {
		user := found.frames[1:firstKernelFrame(found, kernel)]
		if len(user) == 0 || user[len(user)-1].name != "burn" || cutShort.MatchString(user[0].name) {
			other = append(other, found) // on the way down or up
			continue
		}
		deep = append(deep, found)
		counted := 0
		for _, f := range user {
			if match := truncated.FindStringSubmatch(f.name); match != nil {
				n, _ := strconv.Atoi(match[1])
				counted += n - 1
			}
			counted++
		}
		text := s.text(user, nil)
		want, form := s.depth, `^ROOT(?: down)+(?: \[truncated \d+ frames\](?: down)+)? burn$`
		if s.depth > walkedFrames {
			want, form = 1+walkedFrames, `^\[incomplete: depth_limit[^]]*\](?: down)+ \[truncated \d+ frames\](?: down)+ burn$`
		}
		if counted != want || !s.expand(form).MatchString(text) {
			problems = append(problems, fmt.Sprintf("%d frames, want %d: %s", counted, want, brief([]stack{found}, 1)))
		}
	}
	if total(deep) < total(all)*8/10 {
		problems = append(problems, fmt.Sprintf("only %d of %d ms are at the leaf:\n%s", total(deep)/1e6, total(all)/1e6, brief(other, 5)))
	}
	return problems
}
