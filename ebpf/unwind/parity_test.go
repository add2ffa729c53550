package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/integration/testkit/need"
)

const parityWords = 256

// stepCase and stepResult are structs of testdata/parity.c.
type stepCase struct {
	PC, SP, FP, LR, Thread         uint64
	General                        [16]uint64
	Exact, Full, LRKnown, Switches uint8
	FrameFlags                     uint32
	Rule                           WideRule
	MemoryBase, MemoryWords        uint64
	Memory                         [parityWords]uint64
}

type stepResult struct {
	Outcome                        uint64
	PC, SP, FP, LR, Thread         uint64
	General                        [16]uint64
	Exact, Full, LRKnown, Switches uint8
	FrameFlags                     uint32
}

// buildParity compiles the C stepper for an architecture, with the host's compiler.
func buildParity(t *testing.T, arch string) string {
	t.Helper()
	need.Tools(t, "gcc")
	out := filepath.Join(t.TempDir(), "parity-"+arch)
	cmd := exec.Command("gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined",
		"-fno-sanitize-recover", "-fwrapv",
		"-D__TARGET_ARCH_"+arch, "-I../../bpf", "-o", out, "testdata/parity.c")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, text)
	}
	return out
}

// runParity passes cases to the C stepper and returns its results.
func runParity[T any](t *testing.T, program, mode string, cases []stepCase) []T {
	t.Helper()
	var in bytes.Buffer
	if err := binary.Write(&in, binary.LittleEndian, cases); err != nil {
		t.Fatal(err)
	}
	var problems bytes.Buffer
	cmd := exec.Command(program, mode)
	cmd.Stdin, cmd.Stderr = &in, &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &problems)
	}
	results := make([]T, len(cases))
	if err := binary.Read(bytes.NewReader(out), binary.LittleEndian, results); err != nil {
		t.Fatal(err)
	}
	return results
}

// parityStack implements Memory with the memory of a case.
type parityStack struct {
	c       *stepCase
	machine elf.Machine
}

func (m parityStack) ReadU64(addr uint64) (uint64, bool) {
	at := addr - m.c.MemoryBase
	end := 8 * m.c.MemoryWords
	if at > end || 8 > end-at {
		return 0, false
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], m.c.Memory[at/8])
	if at/8+1 < m.c.MemoryWords {
		binary.LittleEndian.PutUint64(b[8:], m.c.Memory[at/8+1])
	}
	return binary.LittleEndian.Uint64(b[at%8:]), true
}

func (m parityStack) Called(addr uint64) bool { return ReturnsTo(m.machine, addr, m) }

// EndsAt reports whether addr is in the last 256 bytes of the memory.
func (m parityStack) EndsAt(addr uint64) bool { return m.c.MemoryBase+8*m.c.MemoryWords-addr <= 256 }

// randomCase returns one step of a random rule over a random stack. Addresses are close to each
// other, so that most reads succeed and some fail.
func randomCase(r *rand.Rand) stepCase {
	c := stepCase{MemoryBase: 0x7ff0_0000_1000, MemoryWords: uint64(r.IntN(parityWords + 1))}
	near := func() uint64 {
		addr := c.MemoryBase + uint64(r.IntN(8*parityWords+512)) - 256
		switch r.IntN(8) {
		case 0:
			return 0
		case 1:
			return addr
		case 2:
			return r.Uint64()
		}
		return addr &^ 7
	}
	small := func() int32 {
		if r.IntN(20) == 0 {
			return int32(r.Uint32())
		}
		return int32(r.IntN(40)-8) * 8
	}
	opcodes := []byte{0xe8, 0xff, 0x10, 0x14, 0x15, 0x50, 0x54, 0x90, 0x94, 0xd0, 0xd6, 0x3f}
	code := func() (word uint64) {
		for range 8 {
			word = word<<8 | uint64(opcodes[r.IntN(len(opcodes))])
		}
		return word
	}
	for i := range c.Memory {
		if c.Memory[i] = near(); r.IntN(4) == 0 {
			c.Memory[i] = code()
		}
	}
	for i := range c.General {
		c.General[i] = near()
	}
	c.PC, c.SP, c.FP, c.LR, c.Thread = near(), near(), near(), near(), near()
	c.Exact, c.Full, c.LRKnown = uint8(r.IntN(2)), uint8(r.IntN(2)), uint8(r.IntN(2))
	c.Switches, c.FrameFlags = uint8(r.IntN(maxSwitches+2)), uint32(r.IntN(2))*2|uint32(r.IntN(2))<<4
	c.Rule = WideRule{
		CFA: CFAKind(r.IntN(17)), Reg: uint8(r.IntN(16)), Reg2: uint8(r.IntN(16)),
		Rules: uint8(r.IntN(6)) | uint8(r.IntN(12))<<4, CFAOff: small(), FPOff: small(), RAOff: small(),
	}
	switch {
	case c.Rule.CFA == CFAGoroutine && r.IntN(4) > 0:
		c.plantGoroutine(r)
	case c.Rule.RA() == RAReg:
		c.Rule.RAOff = int32(r.IntN(16))
	}
	if r.IntN(8) == 0 {
		c.Switches = noMoreSwitches
	}
	return c
}

// plantGoroutine writes descriptors of a thread that runs a goroutine, or none, in the layout of
// Go's runtime.
func (c *stepCase) plantGoroutine(r *rand.Rand) {
	const thread, own, m, current, stack = 16, 32, 64, 96, 200 // words of the memory
	at := func(word int) uint64 { return c.MemoryBase + 8*uint64(word) }
	c.MemoryWords = parityWords
	c.Rule.Reg, c.Rule.Reg2 = uint8(r.IntN(8)), uint8(8+r.IntN(8))
	c.Rule.CFAOff, c.Rule.FPOff, c.Rule.RAOff = -8*int32(r.IntN(16)), 8*int32(1+r.IntN(16)), 8*int32(17+r.IntN(8))
	c.Memory[thread+int(c.Rule.CFAOff)/8], c.Thread = at(own), at(thread)
	if c.Full == 0 { // arm64 has no general registers
		c.Thread = at(own)
		c.Memory[own+int(c.Rule.CFAOff)/8] = at(own)
	}
	c.Memory[own+int(c.Rule.Reg)], c.Memory[current+int(c.Rule.Reg)] = at(m), at(m)
	c.Memory[m], c.Memory[m+int(c.Rule.FPOff)/8] = at(own), at(current)
	if r.IntN(4) == 0 {
		c.Memory[m+int(c.Rule.FPOff)/8] = 0
	}
	c.Memory[current+int(c.Rule.Reg2)] = at(stack + r.IntN(parityWords-stack))
	if r.IntN(8) == 0 {
		c.Memory[own+r.IntN(current+16-own)] = r.Uint64()
	}
}

func (c *stepCase) regs() Regs {
	return Regs{
		PC: c.PC, SP: c.SP, FP: c.FP, LR: c.LR, General: c.General, Exact: c.Exact != 0, Full: c.Full != 0,
		LRKnown: c.LRKnown != 0, Thread: c.Thread,
		ViaFP: c.FrameFlags&2 != 0, RBX: c.FrameFlags&16 != 0, Switches: c.Switches,
	}
}

// regs returns the relevant registers of a result. Unknown registers may have any value.
func (r *stepResult) regs() Regs {
	out := Regs{
		PC: r.PC, SP: r.SP, FP: r.FP, Exact: r.Exact != 0, Full: r.Full != 0, LRKnown: r.LRKnown != 0, Thread: r.Thread,
		ViaFP: r.FrameFlags&2 != 0, RBX: r.FrameFlags&16 != 0, Switches: r.Switches,
	}
	if out.Full {
		out.General = r.General
	}
	if out.LRKnown {
		out.LR = r.LR
	}
	if out.RBX {
		out.General[rbx] = r.General[rbx]
	}
	return out
}

// TestStepParity gives random rules and stacks to both steppers.
func TestStepParity(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"x86": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		program := buildParity(t, arch)
		random := rand.New(rand.NewPCG(5, 6))
		cases := make([]stepCase, 20_000)
		for i := range cases {
			cases[i] = randomCase(random)
			if arch == "x86" {
				cases[i].LRKnown = 0 // the machine has none
			} else {
				cases[i].Full = 0 // general registers are not tracked
			}
		}
		outcomes := map[Outcome]int{}
		for i, got := range runParity[stepResult](t, program, "steps", cases) {
			c := &cases[i]
			want := c.regs()
			outcome := Step(machine, c.Rule, &want, parityStack{c, machine})
			outcomes[outcome]++
			if outcome != Outcome(got.Outcome) {
				t.Fatalf("%s: case %d, rule %s: C ends with %s, Go with %s; sp 0x%x, fp 0x%x, %d words at 0x%x", arch,
					i, c.Rule, Outcome(got.Outcome), outcome, c.SP, c.FP, c.MemoryWords, c.MemoryBase)
			}
			if outcome != Unset {
				continue
			}
			if !want.Full {
				general := want.General
				want.General = [16]uint64{}
				if want.RBX {
					want.General[rbx] = general[rbx]
				}
			}
			if d := cmp.Diff(want, got.regs()); d != "" {
				t.Fatalf("%s: case %d, rule %s: -Go +C\n%s", arch, i, c.Rule, d)
			}
		}
		if outcomes[Unset] < 1000 || len(outcomes) < 6 {
			t.Errorf("%s: cases are too much alike: %v", arch, outcomes)
		}
	}
}

// TestRuleParity looks up addresses of random pages with both implementations.
func TestRuleParity(t *testing.T) {
	program := buildParity(t, "x86")
	random := rand.New(rand.NewPCG(7, 8))
	var cases []stepCase
	var want []WideRule
	for range 500 {
		page := randomPage(random)
		words := page.Words()
		for range 20 {
			c := stepCase{PC: 0x1234<<MaxPageShift | uint64(random.IntN(MaxPageSize)),
				Full: uint8(MinPageShift + random.IntN(MaxPageShift-MinPageShift+1))}
			c.Memory[0] = uint64(len(page.Rows))
			copy(c.Memory[1:], words)
			cases = append(cases, c)
			want = append(want, page.Rule(c.PC))
		}
	}
	for i, got := range runParity[WideRule](t, program, "rules", cases) {
		if want[i].CFA == CFANone && got.CFA == CFANone {
			continue
		}
		if d := cmp.Diff(want[i], got); d != "" {
			t.Fatalf("case %d, address 0x%x: -Go +C\n%s", i, cases[i].PC, d)
		}
	}
}

// randomPage returns a page small enough for a case's memory.
func randomPage(r *rand.Rand) *Page {
	p := &Page{}
	off := 0
	for range 1 + r.IntN(150) {
		if off >= MaxPageSize {
			break
		}
		row := Row{Off: uint16(off), CFA: CFAKind(r.IntN(6)), Rules: uint8(r.IntN(4)), CFAOff: int16(r.IntN(1 << 16)),
			FPOff: int16(r.IntN(1 << 16))}
		if r.IntN(8) == 0 {
			row = Row{Off: uint16(off), CFA: CFAWide, CFAOff: int16(len(p.Wide))}
			p.Wide = append(p.Wide, WideRule{CFA: CFAReg, Reg: uint8(r.IntN(16)), Rules: uint8(r.IntN(4)),
				CFAOff: int32(r.Uint32()), FPOff: int32(r.Uint32()), RAOff: int32(r.Uint32())})
		}
		p.Rows = append(p.Rows, row)
		off += 1 + r.IntN(900)
	}
	return p
}
