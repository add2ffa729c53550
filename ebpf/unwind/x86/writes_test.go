package x86

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// TestWrites compares the written registers with objdump's text of the instructions, for the whole
// text of some files. A register that objdump shows as a destination must be in the set. Of all
// instructions few may have a register in the set that they do not write.
func TestWrites(t *testing.T) {
	for _, path := range ehtest.Files(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			total, wrong, more := 0, 0, 0
			disassemble(t, path, func(in shown) {
				decoded, ok := Decode(in.code)
				if !ok || decoded.Length != in.length {
					return // TestObjdump fails
				}
				total++
				got, want := decoded.Writes(), writesShown(in)
				if want&^got != 0 {
					if wrong++; wrong <= 20 {
						t.Errorf("%x: % x: writes %v, want %v: %s", in.addr, in.code[:in.length], registersOf(got),
							registersOf(want), in.text)
					}
				}
				if got&^want != 0 {
					if more++; more <= 10 {
						t.Logf("%x: % x: writes %v, by objdump's text %v: %s", in.addr, in.code[:in.length],
							registersOf(got), registersOf(want), in.text)
					}
				}
			})
			t.Logf("%d instructions, %d lack a register, %d have one too many", total, wrong, more)
			if more*1000 > total {
				t.Errorf("%d of %d instructions have a register too many, at most 0.1 %% should", more, total)
			}
		})
	}
}

// registers8 are the lower 8 bits of the registers, then bits 8 to 15 of the first ones.
var registers8 = []string{"%al", "%cl", "%dl", "%bl", "%spl", "%bpl", "%sil", "%dil", "%r8b", "%r9b", "%r10b", "%r11b",
	"%r12b", "%r13b", "%r14b", "%r15b", "%ah", "%ch", "%dh", "%bh"}

// setShown returns the set with the general register of an operand, or the empty set.
func setShown(operand string) uint16 {
	if reg, _ := number(operand); reg != NoBase {
		return 1 << reg
	}
	if i := slices.Index(registers8, operand); i >= 0 {
		return 1 << (i % 16)
	}
	return 0
}

func registersOf(set uint16) (names []string) {
	for i, name := range registers64 {
		if set>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return names
}

// readsOnly matches the instructions whose last operand is not written.
var readsOnly = regexp.MustCompile(`^(?:v?u?comis[sdh]|cmp|test|bt[wlq]?$|push|j|call|nop|ud[012]|prefetch` +
	`|vptest|ptest|kortest|ktest|incssp|wrss|vmwrite|out|ret|ptwrite|wr[fg]sbase` +
	`|verr|verw|lldt|ltr|lmsw|inv|fld|fst[^s]|fn?stcw)`)

// ofStrings and ofRAX match the names of string instructions, and of multiplications and divisions.
var (
	ofStrings = regexp.MustCompile(`^(?:movs|cmps|stos|lods|scas|ins|outs)[bwlq]?$`)
	ofRAX     = regexp.MustCompile(`^(?:i?mul|i?div)[bwlq]?$`)
)

// implicit has the registers that instructions write without showing them.
var implicit = map[string]uint16{
	"cltq": setRAX, "cwtl": setRAX, "cbtw": setRAX, "cqto": setRDX, "cltd": setRDX, "cwtd": setRDX, "lahf": setRAX,
	"cpuid": setRAX | setRBX | setRCX | setRDX, "rdtsc": setRAX | setRDX, "rdtscp": setRAX | setRCX | setRDX,
	"xgetbv": setRAX | setRDX, "rdpkru": setRAX | setRDX, "rdpmc": setRAX | setRDX,
	"syscall": setRAX | setRCX | 1<<11, "xlat": setRAX, "leave": 1 << RBP, "enter": 1 << RBP,
	"pcmpestri": setRCX, "pcmpistri": setRCX, "vpcmpestri": setRCX, "vpcmpistri": setRCX,
	"loop": setRCX, "loope": setRCX, "loopne": setRCX, "xbegin": setRAX, "int": setRAX,
	"cmpxchg8b": setRAX | setRDX, "cmpxchg16b": setRAX | setRDX,
}

// writesShown returns the set of written registers from objdump's text.
func writesShown(in shown) uint16 {
	text, _, _ := strings.Cut(in.text, " #")
	fields := strings.Fields(text)
	repeats := false
	for len(fields) > 1 && (slices.Contains(prefixNames, fields[0]) || strings.HasPrefix(fields[0], "rex")) {
		repeats = repeats || strings.HasPrefix(fields[0], "rep")
		fields = fields[1:]
	}
	name, operands := fields[0], []string(nil)
	if len(fields) > 1 {
		operands = splitOperands(fields[1])
	}
	last := ""
	if len(operands) > 0 {
		last = operands[len(operands)-1]
	}
	set, known := implicit[name]
	switch {
	case name == "xchg" && last == "%ax" && operands[0] == last: // a nop
		return 0
	case ofStrings.MatchString(name) && (strings.Contains(text, "%ds:") || strings.Contains(text, "%es:(")):
		if strings.Contains(text, "(%rsi)") {
			set |= setRSI
		}
		if strings.Contains(text, "(%rdi)") {
			set |= setRDI
		}
		if repeats {
			set |= setRCX
		}
		if strings.HasPrefix(name, "scas") { // compares
			return set
		}
		return set | setShown(last)
	case known && name != "cmpxchg8b" && name != "cmpxchg16b":
		return set
	case strings.HasPrefix(name, "xchg"), strings.HasPrefix(name, "xadd"):
		return setShown(operands[0]) | setShown(last)
	case name == "mulx":
		return setShown(operands[1]) | setShown(last)
	case len(operands) < 2 && ofRAX.MatchString(name):
		return setRAX | setRDX
	case strings.HasPrefix(name, "cmpxchg") && !known:
		return setRAX | setShown(last)
	case readsOnly.MatchString(name):
		return 0
	}
	return set | setShown(last)
}

// TestRareWrites has instructions that compilers rarely use, with the registers from the Intel
// manual, volume 2, and for XOP from the AMD64 manual, volume 4.
func TestRareWrites(t *testing.T) {
	const rdi, r8, r10, r12 = 1 << 7, 1 << 8, 1 << 10, 1 << 12
	for text, c := range map[string]struct {
		code []byte
		want uint16
	}{
		"mov $1,%ch":                {[]byte{0xb5, 1}, setRCX},
		"mov $1,%bpl":               {[]byte{0x40, 0xb5, 1}, 1 << RBP},
		"mov %al,%bh":               {[]byte{0x88, 0xc7}, setRBX},
		"mov %al,%dil":              {[]byte{0x40, 0x88, 0xc7}, rdi},
		"mov %rax,(%rbx)":           {[]byte{0x48, 0x89, 0x03}, 0},
		"xchg %rax,%r8":             {[]byte{0x49, 0x90}, setRAX | r8},
		"cmp $1,%rbx":               {[]byte{0x48, 0x83, 0xfb, 1}, 0},
		"xor $1,%rbx":               {[]byte{0x48, 0x83, 0xf3, 1}, setRBX},
		"not %rbx":                  {[]byte{0x48, 0xf7, 0xd3}, setRBX},
		"test $1,%bl":               {[]byte{0xf6, 0xc3, 1}, 0},
		"mul %rbx":                  {[]byte{0x48, 0xf7, 0xe3}, setRAX | setRDX},
		"call *%rbx":                {[]byte{0xff, 0xd3}, 0},
		"dec %ebx":                  {[]byte{0xff, 0xcb}, setRBX},
		"fnstsw %ax":                {[]byte{0xdf, 0xe0}, setRAX},
		"bt $1,%ebx":                {[]byte{0x0f, 0xba, 0xe3, 1}, 0},
		"bts $1,%ebx":               {[]byte{0x0f, 0xba, 0xeb, 1}, setRBX},
		"xadd %rbx,%rcx":            {[]byte{0x48, 0x0f, 0xc1, 0xd9}, setRBX | setRCX},
		"cmpxchg %rcx,%rbx":         {[]byte{0x48, 0x0f, 0xb1, 0xcb}, setRBX | setRAX},
		"rdrand %rbx":               {[]byte{0x48, 0x0f, 0xc7, 0xf3}, setRBX | setRAX | setRDX},
		"rdsspq %rbx":               {[]byte{0xf3, 0x48, 0x0f, 0x1e, 0xcb}, setRBX},
		"rdfsbase %rbx":             {[]byte{0xf3, 0x48, 0x0f, 0xae, 0xc3}, setRBX},
		"lfence":                    {[]byte{0x0f, 0xae, 0xe8}, 0},
		"movq %xmm3,%rbx":           {[]byte{0x66, 0x48, 0x0f, 0x7e, 0xdb}, setRBX},
		"movq %xmm3,%xmm3":          {[]byte{0xf3, 0x0f, 0x7e, 0xdb}, 0},
		"pextrq $0,%xmm0,%rbx":      {[]byte{0x66, 0x48, 0x0f, 0x3a, 0x16, 0xc3, 0}, setRBX},
		"crc32 %rcx,%rbx":           {[]byte{0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xd9}, setRBX},
		"vmovq %xmm0,%rbx":          {[]byte{0xc4, 0xe1, 0xf9, 0x7e, 0xc3}, setRBX},
		"vmovq %xmm3,%xmm3":         {[]byte{0xc5, 0xfa, 0x7e, 0xdb}, 0},
		"vaddpd %ymm3,%ymm3,%ymm3":  {[]byte{0xc5, 0xe5, 0x58, 0xdb}, 0},
		"vcvttsd2si %xmm0,%rbx":     {[]byte{0xc4, 0xe1, 0xfb, 0x2c, 0xd8}, setRBX},
		"kmovd %k1,%ebx":            {[]byte{0xc5, 0xfb, 0x93, 0xd9}, setRBX},
		"kmovd %ebx,%k1":            {[]byte{0xc5, 0xfb, 0x92, 0xcb}, 0},
		"blsr %rcx,%rbx":            {[]byte{0xc4, 0xe2, 0xe0, 0xf3, 0xc9}, setRBX},
		"blsr %rcx,%r12":            {[]byte{0xc4, 0xe2, 0x98, 0xf3, 0xc9}, r12},
		"mulx %rcx,%rbx,%r10":       {[]byte{0xc4, 0x62, 0xe3, 0xf6, 0xd1}, setRBX | r10},
		"rorx $1,%rcx,%rbx":         {[]byte{0xc4, 0xe3, 0xfb, 0xf0, 0xd9, 1}, setRBX},
		"vpcmpistri $1,%xmm3,%xmm3": {[]byte{0xc4, 0xe3, 0x79, 0x63, 0xdb, 1}, setRCX},
		"vcvttsd2usi %xmm0,%rbx":    {[]byte{0x62, 0xf1, 0xff, 0x08, 0x78, 0xd8}, setRBX},
		"vmovups %zmm3,%zmm3":       {[]byte{0x62, 0xf1, 0x7c, 0x48, 0x10, 0xdb}, 0},
		"blcfill %rcx,%rbx":         {[]byte{0x8f, 0xe9, 0xe0, 0x01, 0xc9}, setRBX | setRCX},
	} {
		in, ok := Decode(c.code)
		if !ok || in.Length != len(c.code) {
			t.Errorf("%s: % x is decoded as %+v, %v", text, c.code, in, ok)
			continue
		}
		if got := in.Writes(); got != c.want {
			t.Errorf("%s: writes %v, want %v", text, fmt.Sprint(registersOf(got)), fmt.Sprint(registersOf(c.want)))
		}
	}
}
