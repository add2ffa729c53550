package x86

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// TestEffects compares effects with objdump's text of the instructions, for the whole text of some
// files.
func TestEffects(t *testing.T) {
	seen := map[EffectKind]int{}
	for _, path := range ehtest.Files(t) {
		wrong := 0
		disassemble(t, path, func(in shown) {
			decoded, ok := Decode(in.code)
			if !ok || decoded.Length != in.length {
				return // TestObjdump fails
			}
			if strings.HasPrefix(in.text, "nop") && reservedNop.Match(in.code[:in.length]) {
				return
			}
			want := effectShown(in)
			seen[want.Kind]++
			if got := StackEffect(&decoded); got != want {
				if wrong++; wrong <= 20 {
					t.Errorf("%s: %x: % x: %+v, want %+v: %s", filepath.Base(path), in.addr, in.code[:in.length], got,
						want, in.text)
				}
			}
		})
	}
	t.Logf("instructions by effect: %v", seen)
	for _, kind := range []EffectKind{None, Pad, Begin, Push, Pop, Add, Align, Copy, Address, Load, Store, Leave, Call,
		Return, Jump, Branch, JumpAnywhere, Stop} {
		if seen[kind] == 0 {
			t.Errorf("no instruction of effect %d", kind)
		}
	}
}

// registers64 are the registers by number, as objdump writes them.
var registers64 = []string{"%rax", "%rcx", "%rdx", "%rbx", "%rsp", "%rbp", "%rsi", "%rdi", "%r8", "%r9", "%r10",
	"%r11", "%r12", "%r13", "%r14", "%r15"}

// registersBelow are the lower 32 and 16 bits of the registers.
var registersBelow = [][]string{
	{"%eax", "%ecx", "%edx", "%ebx", "%esp", "%ebp", "%esi", "%edi", "%r8d", "%r9d", "%r10d", "%r11d", "%r12d",
		"%r13d", "%r14d", "%r15d"},
	{"%ax", "%cx", "%dx", "%bx", "%sp", "%bp", "%si", "%di", "%r8w", "%r9w", "%r10w", "%r11w", "%r12w", "%r13w",
		"%r14w", "%r15w"},
}

// number returns the register with objdump's name name, and whether it has 64 bits. It returns
// NoBase for other registers, and for 8-bit registers.
func number(name string) (reg byte, wide bool) {
	if i := slices.Index(registers64, name); i >= 0 {
		return byte(i), true
	}
	for _, names := range registersBelow {
		if i := slices.Index(names, name); i >= 0 {
			return byte(i), false
		}
	}
	return NoBase, false
}

// memory matches a memory operand: segment, displacement, base, index.
var memory = regexp.MustCompile(`^(?:%[c-gs]s:)?(-?0x[0-9a-f]+)?(?:\((%[a-z0-9]+)?(?:,(%[a-z0-9]+))?(?:,[1248])?\))?$`)

// address returns the base and displacement of a memory operand.
func address(operand string) (base byte, disp int64, ok bool) {
	m := memory.FindStringSubmatch(operand)
	if m == nil {
		return 0, 0, false
	}
	base = NoBase
	if reg, _ := number(m[2]); m[3] == "" || m[3] == "%riz" {
		base = reg
	}
	return base, signed(m[1]), true
}

// signed reads a number as objdump writes it: -8 may be 0xfffffffffffffff8.
func signed(text string) int64 {
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		return -signed(rest)
	}
	n, _ := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	return int64(n)
}

// prefixNames are the prefixes that objdump writes before an instruction.
var prefixNames = []string{"bnd", "notrack", "repz", "rep", "repnz", "lock", "data16", "cs", "ds", "es", "ss", "fs",
	"gs", "addr32", "xacquire", "xrelease"}

// effectShown returns the effect of an instruction from objdump's text.
func effectShown(in shown) Effect {
	text, _, _ := strings.Cut(in.text, " #")
	fields := strings.Fields(text)
	for len(fields) > 1 && (slices.Contains(prefixNames, fields[0]) || strings.HasPrefix(fields[0], "rex")) {
		fields = fields[1:]
	}
	name, operands := fields[0], []string(nil)
	if len(fields) > 1 {
		operands = splitOperands(fields[1])
	}
	if e, ok := controlShown(in, name, operands); ok {
		return e
	}
	switch {
	case strings.HasPrefix(name, "push"), strings.HasPrefix(name, "pop") && !strings.HasPrefix(name, "popcnt"):
		return stackShown(name, operands)
	case len(operands) == 0:
		return Effect{}
	}
	to := operands[len(operands)-1]
	switch name {
	case "mov", "movq", "movl", "movw", "lea":
		if len(operands) == 2 {
			return moveShown(name, operands[0], to)
		}
	case "add", "sub", "and":
		if to == "%rsp" && strings.HasPrefix(operands[0], "$") {
			n := signed(operands[0][1:])
			return map[string]Effect{"add": {Kind: Add, N: n}, "sub": {Kind: Add, N: -n},
				"and": {Kind: Align, N: n}}[name]
		}
	case "xchg":
		return losesIf(isStackPointer(operands[0]) || isStackPointer(to))
	case "cmp", "test", "bt", "mul", "div", "idiv":
		return Effect{}
	case "imul":
		return losesIf(len(operands) > 1 && isStackPointer(to))
	}
	return losesIf(isStackPointer(to))
}

func isStackPointer(operand string) bool {
	return operand == "%rsp" || operand == "%esp" || operand == "%sp"
}

// reservedNop matches 0f 19 to 0f 1e, which are reserved nops and not used for padding.
var reservedNop = regexp.MustCompile(`^(?s:.?.?.?)\x0f[\x19-\x1e]`)

// controlShown returns the effect of instructions that change the control flow, and of nops.
func controlShown(in shown, name string, operands []string) (Effect, bool) {
	next := in.addr + uint64(in.length)
	distance := func() int64 { return int64(uint64(signed(operands[0])) - next) }
	switch {
	case name == "nop" || name == "nopw" || name == "nopl" || name == "pause" || name == "xchg" &&
		slices.Equal(operands, []string{"%ax", "%ax"}):
		return Effect{Kind: Pad}, true
	case name == "endbr64":
		return Effect{Kind: Begin}, true
	case name == "int3":
		return Effect{Kind: Trap}, true
	case slices.Contains([]string{"ud2", "hlt", "int1"}, name), strings.HasPrefix(name, "lret"),
		strings.HasPrefix(name, "iret"),
		strings.HasPrefix(name, "lcall"), strings.HasPrefix(name, "ljmp"):
		return Effect{Kind: Stop}, true
	case name == "enter":
		return Effect{Kind: Lose}, true
	case strings.HasPrefix(name, "leave"):
		return Effect{Kind: Leave}, true
	case strings.HasPrefix(name, "ret"):
		return Effect{Kind: Return}, true
	case name == "call" && !strings.HasPrefix(operands[0], "*") && distance() == 0:
		return Effect{Kind: Push, Reg: NoBase, N: -8}, true
	case name == "call":
		return Effect{Kind: Call}, true
	case name == "jmp" && strings.HasSuffix(operands[0], "(%rip)"):
		return Effect{Kind: JumpBySlot}, true
	case name == "jmp" && strings.HasPrefix(operands[0], "*"):
		return Effect{Kind: JumpAnywhere}, true
	case name == "jmp":
		return Effect{Kind: Jump, N: distance()}, true
	case strings.HasPrefix(name, "j"), strings.HasPrefix(name, "loop"):
		return Effect{Kind: Branch, N: distance()}, true
	}
	return Effect{}, false
}

// stackShown returns the effect of push and pop.
func stackShown(name string, operands []string) Effect {
	e, narrow := Effect{Kind: Push, Reg: NoBase, N: -8}, strings.HasSuffix(name, "w")
	if strings.HasPrefix(name, "pop") {
		e.Kind, e.N = Pop, 8
	}
	if len(operands) == 1 {
		reg, wide := number(operands[0])
		e.Reg, narrow = reg, narrow || reg != NoBase && !wide
	}
	if narrow {
		e.N /= 4
	}
	return e
}

// moveShown returns the effect of mov and lea.
func moveShown(name, from, to string) Effect {
	source, wideSource := number(from)
	target, wideTarget := number(to)
	if target != NoBase {
		base, disp, inMemory := address(from)
		switch {
		case wideTarget && inMemory && name == "lea":
			return Effect{Kind: Address, Reg: target, Base: base, N: disp}
		case wideTarget && inMemory:
			return Effect{Kind: Load, Reg: target, Base: base, N: disp}
		case wideTarget && wideSource:
			return Effect{Kind: Copy, Reg: target, Base: source}
		}
		return losesIf(target == RSP)
	}
	if base, disp, ok := address(to); ok && source != NoBase {
		return Effect{Kind: Store, Reg: source, Base: base, Wide: wideSource, N: disp}
	}
	return Effect{}
}

// splitOperands splits operands at commas that are not in parentheses.
func splitOperands(text string) (operands []string) {
	depth, begin := 0, 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				operands, begin = append(operands, text[begin:i]), i+1
			}
		}
	}
	return append(operands, text[begin:])
}

// TestRareEffects has instructions that compilers rarely use, with the effects from the Intel
// manual, volume 2.
func TestRareEffects(t *testing.T) {
	for text, c := range map[string]struct {
		code []byte
		want Effect
	}{
		"pop %rsp":             {[]byte{0x5c}, Effect{Kind: Pop, Reg: RSP, N: 8}},
		"pop %r12":             {[]byte{0x41, 0x5c}, Effect{Kind: Pop, Reg: 12, N: 8}},
		"push %r10, wide":      {[]byte{0x66, 0x4b, 0x52}, Effect{Kind: Push, Reg: 10, N: -8}},
		"push %ax":             {[]byte{0x66, 0x50}, Effect{Kind: Push, Reg: RAX, N: -2}},
		"push $1":              {[]byte{0x6a, 0x01}, Effect{Kind: Push, Reg: NoBase, N: -8}},
		"pushf":                {[]byte{0x9c}, Effect{Kind: Push, Reg: NoBase, N: -8}},
		"popf":                 {[]byte{0x9d}, Effect{Kind: Pop, Reg: NoBase, N: 8}},
		"push 8(%rax)":         {[]byte{0xff, 0x70, 0x08}, Effect{Kind: Push, Reg: NoBase, N: -8}},
		"pop 8(%rax)":          {[]byte{0x8f, 0x40, 0x08}, Effect{Kind: Pop, Reg: NoBase, N: 8}},
		"push %fs":             {[]byte{0x0f, 0xa0}, Effect{Kind: Push, Reg: NoBase, N: -8}},
		"pop %gs":              {[]byte{0x0f, 0xa9}, Effect{Kind: Pop, Reg: NoBase, N: 8}},
		"call the next one":    {[]byte{0xe8, 0, 0, 0, 0}, Effect{Kind: Push, Reg: NoBase, N: -8}},
		"jmp *8(%rip)":         {[]byte{0xff, 0x25, 8, 0, 0, 0}, Effect{Kind: JumpBySlot}},
		"lea (%rsp,%rax),%rsp": {[]byte{0x48, 0x8d, 0x24, 0x04}, Effect{Kind: Address, Reg: RSP, Base: NoBase}},
		"lea -8(%rbp),%rsp":    {[]byte{0x48, 0x8d, 0x65, 0xf8}, Effect{Kind: Address, Reg: RSP, Base: RBP, N: -8}},
		"mov 16(%rsp),%rsp": {[]byte{0x48, 0x8b, 0x64, 0x24, 0x10},
			Effect{Kind: Load, Reg: RSP, Base: RSP, N: 16}},
		"mov %rax,%rsp":          {[]byte{0x48, 0x89, 0xc4}, Effect{Kind: Copy, Reg: RSP, Base: RAX}},
		"mov %rax,%rsp, by load": {[]byte{0x48, 0x8b, 0xe0}, Effect{Kind: Copy, Reg: RSP, Base: RAX}},
		"mov %eax,%esp":          {[]byte{0x89, 0xc4}, Effect{Kind: Lose}},
		"add $8,%esp":            {[]byte{0x83, 0xc4, 0x08}, Effect{Kind: Lose}},
		"or $8,%rsp":             {[]byte{0x48, 0x83, 0xcc, 0x08}, Effect{Kind: Lose}},
		"cmp $8,%rsp":            {[]byte{0x48, 0x83, 0xfc, 0x08}, Effect{}},
		"add %rax,%rsp":          {[]byte{0x48, 0x01, 0xc4}, Effect{Kind: Lose}},
		"add (%rax),%rsp":        {[]byte{0x48, 0x03, 0x20}, Effect{Kind: Lose}},
		"xchg %rax,%rsp":         {[]byte{0x48, 0x94}, Effect{Kind: Lose}},
		"xchg %rsp,(%rax)":       {[]byte{0x48, 0x87, 0x20}, Effect{Kind: Lose}},
		"mov $1,%rsp":            {[]byte{0x48, 0xc7, 0xc4, 1, 0, 0, 0}, Effect{Kind: Lose}},
		"cmove %rax,%rsp":        {[]byte{0x48, 0x0f, 0x44, 0xe0}, Effect{Kind: Lose}},
		"bswap %rsp":             {[]byte{0x48, 0x0f, 0xcc}, Effect{Kind: Lose}},
		"enter $16,$0":           {[]byte{0xc8, 0x10, 0, 0}, Effect{Kind: Lose}},
		"int3":                   {[]byte{0xcc}, Effect{Kind: Trap}},
		"lret":                   {[]byte{0xcb}, Effect{Kind: Stop}},
		"loop to itself":         {[]byte{0xe2, 0xfe}, Effect{Kind: Branch, N: -2}},
		"vmovaps %xmm4,%xmm4":    {[]byte{0xc5, 0xf8, 0x28, 0xe4}, Effect{}},
	} {
		in, ok := Decode(c.code)
		if !ok || in.Length != len(c.code) {
			t.Errorf("%s: % x is decoded as %+v, %v", text, c.code, in, ok)
			continue
		}
		if got := StackEffect(&in); got != c.want {
			t.Errorf("%s: %+v, want %+v", text, got, c.want)
		}
	}
}
