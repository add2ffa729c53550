package stacks

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// guess matches the mark below a frame that was found only by the frame pointer.
const guess = `\[guessed: frame_pointer in [^]]*\]`

// plain is the form of testdata/programs/plain.c.
const plain = `_start LIBC LIBC main(?: first(?: second(?: third(?: burn)?)?)?| LIBC| VDSO| PLT)?`

// plainRule is a rule whose program is plain.c, built or run in some way.
func plainRule(name string, run starter) rule {
	return rule{name: name, start: run,
		want: []stacksOf{{comm: name, form: plain, ofSlot: map[string]int{"third burn$": 60}}}}
}

// plainProgram builds plain.c.
func plainProgram(name string, flags ...string) starter {
	return runs(name, "programs/plain.c", flags...)
}

// rules has a program for each; programs_test.go and chain_test.go have those
// for PIE and non-PIE, static and static-pie, stripped, no CFI at all, threads,
// signals, the vdso, realigned stacks and frame pointers.
func rules() []rule {
	var all []rule
	for _, part := range [][]rule{
		foreignRules(), fileRules(), callRules(), vsyscallRules(), frameRules(), stackRules(), processRules(),
	} {
		all = append(all, part...)
	}
	return all
}

// fileRules: where the unwind information and the text are, and which file it is.
func fileRules() []rule {
	return []rule{
		// .debug_frame besides .eh_frame: the C library's start files have the latter.
		plainRule("hwdebugframe", plainProgram("hwdebugframe", "-g", "-fno-asynchronous-unwind-tables",
			"-fno-unwind-tables")),
		// .eh_frame_hdr by PT_GNU_EH_FRAME and .eh_frame by that. nm names the functions.
		plainRule("hwsectionless", plainProgram("hwsectionless").withoutSections()).named("hwsectionless.sections"),
		// Text whose address is not its offset in the file.
		plainRule("hwtextsegment", plainProgram("hwtextsegment", "-no-pie", "-fno-pie", "-Wl,-Ttext-segment=0x10000000")).
			repeating("hwmovedtext"),
		plainRule("hwprelinked", plainProgram("hwprelinked", "-Wl,-Ttext-segment=0x3000000")).repeating("hwmovedtext"),
		plainRule("hwmovedtext", plainProgram("hwmovedtext", "-Wl,--section-start=.text=0x8000000")),
		// The file is gone, after the profiler has seen it or before.
		plainRule("hwdeleted", plainProgram("hwdeleted").
			shell(`(`+running("$$")+`; sleep 0.2; rm "$1") & exec "$@"`)).repeating("hwdeletedearly"),
		plainRule("hwdeletedearly", plainProgram("hwdeletedearly").forSeconds(endless).
			shell(`(`+running("$$")+`; rm "$1") & exec "$@"`)).beforeProfiler(fileIsGone),
		// Another file has taken its name, and both run at once.
		{name: "hwreplaced",
			start: replacedProgram("hwreplaced").forSeconds("1").
				shell(`"$@" & ` + running("$!") + `; sleep 0.2; mv "$1.other" "$1"; "$@"; wait`),
			want: []stacksOf{{
				comm:   "hwreplaced",
				form:   plain + `|_start LIBC LIBC main(?: other1(?: other2(?: other3(?: other4)?)?)?| LIBC| VDSO| PLT)?`,
				ofSlot: map[string]int{"third burn$": 60, "other3 other4$": 60},
			}}},
		plainRule("hwreplacedearly", replacedProgram("hwreplacedearly").forSeconds(endless).
			shell(`(`+running("$$")+`; mv "$1.other" "$1") & exec "$@"`)).beforeProfiler(fileIsGone).repeating("hwreplaced"),
		// In no file system that the profiler sees.
		{name: "hwmemory", start: inMemory(plainProgram("hwmemory")), want: []stacksOf{{
			comm: "memfd:hwmemory", before614: "777", form: plain, ofSlot: map[string]int{"third burn$": 60},
		}}},
		plainRule("hwoverlay", plainProgram("hwoverlay").onOverlay()),
		plainRule("hwchroot", plainProgram("hwchroot").inChroot()),
		// More than one mapping of a file: a library loaded twice.
		{name: "hwtwice", start: withLibrary(runs("hwtwice", "rules/twice.c"), "libtwice.so", "rules/libtwice.c"),
			want: []stacksOf{{
				comm: "hwtwice",
				form: `ROOT(?: (?:first|second)(?: libtwice\.so:work(?: libtwice\.so:(?:burn|\+\S+))?)?| LIBC| VDSO| PLT)?` +
					`|ROOT(?: LIBC| LD| \S+:_\w+)+`,
				ofSlot: map[string]int{
					`first libtwice\.so:work libtwice\.so:burn$`:  60,
					`second libtwice\.so:work libtwice\.so:burn$`: 60,
				},
			}}},
	}
}

// vsyscallRules: the return address is on top of the stack in a page of no file. Kernels may be built, or started,
// without that page.
func vsyscallRules() []rule {
	if maps, err := os.ReadFile("/proc/self/maps"); err != nil || !strings.Contains(string(maps), "[vsyscall]") {
		return nil
	}
	return []rule{{name: "hwvsyscall", start: runs("hwvsyscall", "rules/vsyscall.c"), want: []stacksOf{{
		comm: "hwvsyscall", form: `ROOT(?: asks(?: \[vsyscall\]:time)?| LIBC| VDSO| PLT)?`,
		ofSlot: map[string]int{`asks \[vsyscall\]:time$`: 40},
	}}}}
}

// callRules: how the return address and the caller are found.
func callRules() []rule {
	const lazy = `ROOT(?: turn(?:(?: LIBC| LD)*(?: \S+:_\w+| \S+:\+\S+)?` +
		`| libcalls\.so:call_all(?: libtargets\.so:t\d+| libcalls\.so:(?:\+\S+|t\d+@plt)|(?: LD)+)?)?| VDSO| PLT| LIBC)?`
	binding := map[string]int{
		`call_all LD LD`: 5, // below _dl_runtime_resolve
		`call_all libcalls\.so:\+\S+$|call_all libcalls\.so:t\d+@plt$`: 0, // in the procedure linkage table itself
	}
	return []rule{
		// The return address is in rdi, in the parent and in the child. In a system call the pc is exact.
		{name: "hwvfork", start: runs("hwvfork", "rules/vfork.c"), want: []stacksOf{{
			comm:   "hwvfork",
			form:   `ROOT(?: spawn(?: burn|(?: LIBC){1,2}| PLT)?| LIBC| VDSO| PLT)?`,
			ofSlot: map[string]int{`spawn libc\.so\.6:(?:__|__libc_)?vfork$`: 10, `spawn burn$`: 60},
		}}},
		// In the system call that makes a process, and after it, libc has no CFI: it could not be right in both. The
		// child has another stack, and starts at the parent's return address.
		{name: "hwspawn", start: runs("hwspawn", "rules/spawn.c"), want: []stacksOf{{
			comm:   "hwspawn",
			form:   `ROOT(?: turn(?: LIBC| PLT)*| LIBC| VDSO| PLT)?|libc\.so\.6:(?:__)?clone3?(?: LIBC| LD)*`,
			ofSlot: map[string]int{`turn(?: LIBC)+ libc\.so\.6:(?:__)?clone3?$`: 10},
		}}},
		// Both expressions for the CFA in a procedure linkage table, and the resolver that it jumps to.
		{name: "hwlazy", start: lazyProgram("hwlazy"), want: []stacksOf{{comm: "hwlazy", form: lazy, ofSlot: binding}}},
		{name: "hwlazyibt", start: lazyProgram("hwlazyibt", "-fcf-protection", "-Wl,-z,ibtplt"),
			repeats: "hwlazy", want: []stacksOf{{comm: "hwlazyibt", form: lazy, ofSlot: binding}}},
		// CFA by scratch registers; pc - 1 where an FDE ends in a call; nested remember_state.
		{name: "hwassembled", start: runs("hwassembled", "rules/assembled.c"), want: []stacksOf{{
			comm: "hwassembled",
			form: `ROOT(?: by_r10| by_rdi| nested` +
				`| leave_and_return(?: ends_in_call(?: burn_and_leave(?: burn| LIBC| PLT)*)?|(?: LIBC)+| PLT)?| LIBC| VDSO| PLT)?`,
			ofSlot: map[string]int{"by_r10$": 60, "by_rdi$": 60, "nested$": 60, "ends_in_call burn_and_leave burn$": 60},
		}}},
		// A zero in rbp, where neither CFI nor code says more, is not the end of the stack.
		{name: "hwcounter", start: runs("hwcounter", "rules/counter.c"), want: []stacksOf{{
			comm: "hwcounter",
			form: `ROOT(?: LIBC| VDSO| PLT| cpu_time)*|ROOT outer(?: inner)?` +
				`|\[incomplete: no_row in [^]]*\](?: outer)?(?: ` + guess + `)?(?: inner)?`,
			ofSlot: map[string]int{`^\[incomplete: no_row in [^]]*\] outer ` + guess + ` inner$`: 60},
		}}},
		// Assembly without any CFI.
		{name: "hwhandwritten", start: runs("hwhandwritten", "rules/handwritten.c"), want: []stacksOf{{
			comm: "hwhandwritten",
			form: `ROOT(?: hand_(?:leaf|pushes(?: burn)?|aligned|unrolled|tail|based)| LIBC| VDSO| PLT)?`,
			ofSlot: map[string]int{"main hand_leaf$": 60, "hand_pushes burn$": 60, "hand_aligned$": 60, "hand_unrolled$": 60,
				"hand_tail$": 60, "hand_based$": 60},
		}}},
		// Code that the program has made itself, without frame pointers.
		{name: "hwjitted", start: runs("hwjitted", "rules/jitted.c"), want: []stacksOf{{
			comm:   "hwjitted",
			form:   `ROOT(?: \S+(?: burn| nothing)?| LIBC| VDSO| PLT)?`,
			ofSlot: map[string]int{`main \[unknown\]$`: 60, `main \[unknown\] burn$`: 60},
		}}},
		// CFA by a callee-saved register, not in the leaf.
		{name: "hwbyrbx", start: runs("hwbyrbx", "rules/assembled.c", "-DBY_RBX"), want: []stacksOf{{
			comm: "hwbyrbx", form: `ROOT(?: by_rbx(?: burn)?| LIBC| VDSO| PLT)?`, ofSlot: map[string]int{"by_rbx burn$": 60},
		}}, repeats: "hwassembled"},
		// An exception in flight.
		{name: "hwthrow", start: runs("hwthrow", "rules/throw.cc"), want: []stacksOf{{
			comm: "hwthrow",
			form: `ROOT(?: turn(?:(?: deep){0,40}|(?: deep){39} deep(?:\.cold)?(?: libstdc\+\+\.so\.[0-9.]+:\S+){0,2}` +
				`(?: libgcc_s\.so\.1:\S+| LIBC| LD| libstdc\+\+\.so\.[0-9.]+:\S+)*)?` +
				`|(?: turn(?:\.cold)?)?(?: libstdc\+\+\.so\.[0-9.]+:\S+| libgcc_s\.so\.1:\S+| LIBC| LD| PLT)+| VDSO)?`,
			ofSlot: map[string]int{`turn(?: deep){39} deep(?:\.cold)? libstdc\+\+\.so\.[0-9.]+:__cxa_throw ` +
				`libgcc_s\.so\.1:_Unwind_RaiseException`: 50},
		}}},
	}
}

// frameRules: prologues, epilogues, large and deep stacks.
func frameRules() []rule {
	huge := func(name, form string, flags ...string) rule {
		return rule{name: name, start: runs(name, "rules/huge.c", flags...), want: []stacksOf{{
			comm:   name,
			form:   `ROOT(?: LIBC)*|LIBC(?: LIBC(?: worker(?: ` + form + `| LIBC| VDSO| PLT)?)?)?`,
			ofSlot: map[string]int{"burn$": 60},
		}}}
	}
	// About every fifth sample is the first one in its code, whose rows are missing then.
	sparse := func(name string, flags ...string) rule {
		return rule{name: name, start: runs(name, "rules/sparse.c", flags...), want: []stacksOf{{
			comm: name,
			form: `(?:ROOT|LIBC LIBC)(?: worker(?: roomy(?: leaf\d+(?: burn)?)?)?(?: LIBC| VDSO| PLT)*)?` +
				`|ROOT(?: LIBC)*|LIBC(?: LIBC)*`,
			ofSlot: map[string]int{`roomy leaf\d+ burn$`: 60},
		}}}
	}
	return []rule{
		{name: "hwprologue", start: runs("hwprologue", "rules/prologue.c"), want: []stacksOf{{
			comm: "hwprologue",
			form: `ROOT(?: drive(?: (?:pushes|room|pointer|realigned|early)(?: leaf)?)?| LIBC| VDSO| PLT)?`,
			ofSlot: map[string]int{
				"drive pushes(?: leaf)?$": 50, "drive room(?: leaf)?$": 50, "drive pointer(?: leaf)?$": 50,
				"drive realigned(?: leaf)?$": 50, "drive early(?: leaf)?$": 30,
				"drive pushes$": 10, "drive room$": 5, "drive pointer$": 5, "drive realigned$": 5, "drive early$": 5, "leaf$": 0,
			},
		}}},
		// Offsets beyond 16 bits, and beyond 31.
		huge("hwhuge", `large(?: larger(?: burn)?)?`),
		huge("hwhuger", `large(?: larger(?: largest(?: burn)?)?)?`, "-DBEYOND_31_BITS").repeating("hwhuge"),
		// Large frames that are mostly zeros: the stack is copied all the same.
		sparse("hwsparse", "-DROOM=(600<<10)"),
		sparse("hwsparser", "-DROOM=(1536<<10)", "-DTHREAD").repeating("hwsparse"),
		sparse("hwspeckled", "-DROOM=(600<<10)", "-DFILL=41", "-DTHREAD").repeating("hwsparse"),
		deepRule("hwdeep1000", 1000).repeating("hwdeep3000"), // and TestDepth has 1,024
		deepRule("hwdeep1020", 1020).repeating("hwdeep3000"),
		deepRule("hwdeep3000", 3000),
	}
}

// deepRule has a stack of a number of user frames: the first four, the frames between, and the leaf.
func deepRule(name string, frames int) rule {
	return rule{
		name:  name,
		start: runs(name, "rules/depth.c").withArguments(fmt.Sprint(frames - 5)),
		want:  []stacksOf{{comm: name, depth: frames}},
	}
}

// stackRules: stacks that do not start in _start.
func stackRules() []rule {
	return []rule{
		{name: "hwcoroutine", start: runs("hwcoroutine", "rules/coroutine.c"), want: []stacksOf{{
			comm:   "hwcoroutine",
			form:   `ROOT(?: turn(?: LIBC| PLT)?| LIBC| VDSO| PLT)?|LIBC(?: coroutine(?: step(?: burn)?| LIBC| PLT)?)?`,
			ofSlot: map[string]int{"^LIBC coroutine step burn$": 60},
		}}},
		{name: "hwfiber", start: runs("hwfiber", "rules/fiber.c"), want: []stacksOf{{
			comm: "hwfiber", form: `ROOT(?: LIBC| VDSO| PLT)*|make_fiber(?: fiber(?: burn| PLT)?)?`,
			ofSlot: map[string]int{"^make_fiber fiber burn$": 60},
		}}},
		// On another stack at a lower address than the caller's, or a higher one.
		{name: "hwswitch", start: runs("hwswitch", "rules/switch.c", "-pthread"), want: []stacksOf{{
			comm: "hwswitch",
			form: `ROOT(?: (?:LIBC|PLT))*|(?:ROOT|LIBC LIBC thread|LIBC(?: LIBC)*)` +
				`(?: keeps_rbp(?: by_rbp(?: works(?: burn)?)?)?| keeps_word(?: by_word(?: works(?: burn)?)?)?` +
				`| keeps_fiber(?: by_fiber(?: nested(?: keeps_link(?: by_link(?: works(?: burn)?)?)?)?)?)?)?`,
			ofSlot: map[string]int{
				`main keeps_rbp by_rbp works burn$`: 60, `LIBC thread keeps_rbp by_rbp works burn$`: 60,
				`LIBC thread keeps_word by_word works burn$`:                             60,
				`LIBC thread keeps_fiber by_fiber nested keeps_link by_link works burn$`: 60,
			},
		}}},
		{name: "hwclone", start: runs("hwclone", "rules/clone.c"), want: []stacksOf{{
			comm:   "hwclone",
			form:   `ROOT(?: LIBC)*|libc\.so\.6:(?:__)?clone(?: worker(?: burn| VDSO| LIBC| PLT)?)?`,
			ofSlot: map[string]int{`^libc\.so\.6:(?:__)?clone worker burn$`: 60},
		}}},
		{name: "hwrawclone", start: runs("hwrawclone", "rules/clone.c", "-DRAW"), want: []stacksOf{{
			comm:   "hwrawclone",
			form:   `ROOT(?: LIBC| PLT| raw_clone)*|raw_clone(?: worker(?: burn| VDSO| LIBC| PLT)?)?`,
			ofSlot: map[string]int{"^raw_clone worker burn$": 60},
		}}},
	}
}

// processRules: which process, program and name a sample is of.
func processRules() []rule {
	execd := func(burns string) string { return `ROOT(?: ` + burns + `(?: burn)?| LIBC| VDSO| PLT)*` }
	renamed := func(burns string) string { return `ROOT(?: ` + burns + `(?: burn)?)?|ROOT(?: LIBC| VDSO| PLT)+` }
	return []rule{
		{name: "hwfork", start: runs("hwfork", "rules/fork.c"), want: []stacksOf{{
			comm:   "hwfork",
			form:   `ROOT(?: parent(?: child(?: burn)?|(?: LIBC| LD)+| PLT)?| LIBC| VDSO| PLT)?`,
			ofSlot: map[string]int{"parent child burn$": 60},
		}}},
		// Another program in the same process, thirty times a second: no name of the one before.
		{name: "hwexec", start: execProgram(), want: []stacksOf{
			{comm: "hwexec-a", form: execd("a_burn"), ofSlot: map[string]int{"a_burn burn$": 60}},
			{comm: "hwexec-b", form: execd("b_burn"), ofSlot: map[string]int{"b_burn burn$": 60}},
		}},
		// The name that the process had when the sample was taken.
		{name: "hwname", start: runs("hwname", "rules/rename.c"), want: []stacksOf{
			{comm: "hwname-one", program: "hwname", form: renamed("one"), ofSlot: map[string]int{"one burn$": 60}},
			{comm: "hwname-two", program: "hwname", form: renamed("two"), ofSlot: map[string]int{"two burn$": 60}},
		}},
	}
}

// rules32Bit: on a 64-bit kernel, which copies the stack.
func rules32Bit() []rule {
	return []rule{
		plainRule("hw32bit", plainProgram("hw32bit", "-m32").needing(multilib)),
		plainRule("hw32stripped", plainProgram("hw32stripped", "-m32").needing(multilib).stripped()).
			named("hw32stripped.symbols"),
	}
}

// foreignRules: code that a C compiler did not make.
func foreignRules() []rule {
	// rustc makes a main without CFI where no panic can pass. eu-stack goes no further either.
	const frames = ` \S*lang_start_internal\S*(?: \S*(?:std|core)\S*)+ \S*4rust4main\S+ run .*` +
		`|(?:_start LIBC LIBC|main) (?:LIBC|main).*`
	const whole, fromMain = `_start LIBC LIBC main` + frames, `\[incomplete: no_row in hwrustabort\] main` + frames
	rusty := map[string]int{`lang_start_internal\S* .* run \S+4turn\S+(?: \S+)* burn$`: 60}
	return []rule{
		{name: "hwstrings", start: runs("hwstrings", "rules/strings.c", "-fno-builtin"), want: []stacksOf{{
			comm: "hwstrings", form: `ROOT(?: strings(?: LIBC(?: LIBC)?| PLT)?| LIBC| VDSO| PLT)?`,
			ofSlot: map[string]int{"strings LIBC$": 60},
		}}},
		// Assembly in libcrypto: hashes, ciphers and big numbers, some of them with their own registers for the CFA.
		{name: "openssl", start: func(t testing.TB, dir string) *exec.Cmd {
			need.Tools(t, "openssl")
			// The kernel ends each after a second of CPU time.
			return exec.Command("sh", "-c", `ulimit -c 0; ulimit -t 1
				for each in sha256 aes-256-cbc rsa2048 ecdhp256; do openssl speed -seconds 600 -bytes 8192 $each; done; true`)
		}, want: []stacksOf{{
			comm:   "openssl",
			form:   `PLT LIBC LIBC(?: PLT| lib(?:crypto|ssl)\.so\.3:\S+| LIBC| LD| VDSO)*`,
			ofSlot: map[string]int{`libcrypto\.so\.3:`: 60, `sha256|SHA256`: 0},
		}}},
		{name: "hwrust", start: rustProgram("hwrust"), want: []stacksOf{{comm: "hwrust", form: whole, ofSlot: rusty}}},
		{name: "hwrustabort", start: rustProgram("hwrustabort", "-C", "panic=abort"),
			want: []stacksOf{{comm: "hwrustabort", form: fromMain + "|" + whole, ofSlot: rusty}}, repeats: "hwrust"},
		// No CFI for the program's own functions, frame pointers instead.
		{name: "hwrustframes", start: rustProgram("hwrustframes", "-C", "panic=abort", "-C", "force-unwind-tables=no",
			"-C", "force-frame-pointers=yes"),
			want: []stacksOf{{comm: "hwrustframes", form: whole, ofSlot: rusty}}, repeats: "hwrust"},
		muslRule("hwmusl"),
		muslRule("hwmuslstatic", "-static").repeating("hwmusl"),
		muslRule("hwmuslpie", "-static-pie").repeating("hwmusl"),
	}
}

// muslRule is for musl, which has no CFI: the function that calls main calls exit, which does not return, and a thread
// starts in functions that exit. Only their code shows where they were called from.
func muslRule(name string, flags ...string) rule {
	return rule{name: name, start: musl(name, flags...), want: []stacksOf{{
		comm: name,
		form: `_start (?:libc\.so:)?\S+ main(?: first(?: second(?: third(?: burn)?)?)?)?(?: \S+(?: \S+)?(?: VDSO)?)?` +
			`|(?:libc\.so:\S+ )+(?:libc\.so:\S+)|_start(?: \S+)?(?: \S+)?|\S+`,
		ofSlot: map[string]int{`^_start \S+ main first second third burn$`: 60},
	}}}
}

// withLibrary builds a library next to the program.
func withLibrary(run starter, name, source string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		ruleSource(t, dir, name, source, "-shared", "-fPIC")
		return run(t, dir)
	}
}

// replacedProgram builds plain.c, and a program whose functions have other
// names and places next to it.
func replacedProgram(name string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		ruleSource(t, dir, name+".other", "programs/plain.c", "-Dfirst=other1", "-Dsecond=other2", "-Dthird=other3",
			"-Dburn=other4", "-O1", "-fno-omit-frame-pointer")
		return plainProgram(name)(t, dir)
	}
}

// inMemory copies the program to a memfd and runs that.
func inMemory(run starter) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		cmd := run(t, dir)
		return exec.Command(ruleSource(t, dir, "memfd", "rules/memfd.c"), cmd.Args...)
	}
}

// execProgram builds two programs that execute each other.
func execProgram() starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		a := ruleSource(t, dir, "hwexec-a", "rules/exec.c", "-DBURN=a_burn")
		b := ruleSource(t, dir, "hwexec-b", "rules/exec.c", "-DBURN=b_burn", "-DPAD")
		return exec.Command(a, slotSeconds, b)
	}
}

// named says which file next to the program has the names of its functions.
func (r rule) named(file string) rule {
	for i := range r.want {
		r.want[i].names = file
	}
	return r
}

// beforeProfiler makes it run before the profiler does, until it is ready. It is to run for long.
func (r rule) beforeProfiler(ready func(t testing.TB, pid int) bool) rule {
	r.early = ready
	return r
}

// fileIsGone reports whether the file that a process executes has been removed.
func fileIsGone(_ testing.TB, pid int) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && strings.HasSuffix(path, " (deleted)")
}

// repeating says which rule is of the same kind, so that this one is left to make nightly.
func (r rule) repeating(name string) rule {
	r.repeats = name
	return r
}

// representatives has a rule of each kind.
func representatives(t testing.TB, all []rule) []rule {
	t.Helper()
	few := slices.DeleteFunc(slices.Clone(all), func(r rule) bool { return r.repeats != "" })
	for _, r := range all {
		if r.repeats != "" && !slices.ContainsFunc(few, func(of rule) bool { return of.name == r.repeats }) {
			t.Fatalf("%s repeats %s, which does not represent its kind", r.name, r.repeats)
		}
	}
	return few
}
