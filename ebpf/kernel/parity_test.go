package kernel

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/chain"
	"github.com/headwater/headwater/integration/testkit/need"
)

const (
	chainMemory = 4096
	chainFrames = 64 // the last ones, which are compared
)

// chainCase and chainResult are structs of testdata/chain.c.
type chainCase struct {
	Interpreter       profilerInterpreter
	Pointer, ID, Bias uint64
	Base              uint64
	Memory            [chainMemory]byte
}

type chainResult struct {
	End, Frames uint64
	Words       [chainFrames][language.MaxWords + 1]uint64
}

// Read is chain.Memory.
func (c *chainCase) Read(addr uint64, b []byte) bool {
	at := addr - c.Base
	if at > chainMemory || uint64(len(b)) > chainMemory-at {
		return false
	}
	copy(b, c.Memory[at:])
	return true
}

func (c *chainCase) thread() chain.Thread {
	return chain.Thread{Pointer: c.Pointer, ID: uint32(c.ID), Bias: c.Bias}
}

// chainMaker makes random chains over random memory. Addresses are near each other, so that
// most reads succeed, and some do not.
type chainMaker struct {
	*rand.Rand
	base uint64
}

func (r chainMaker) near() uint64 {
	switch r.IntN(12) {
	case 0:
		return 0
	case 1:
		return r.Uint64()
	case 2:
		return r.base + uint64(r.IntN(chainMemory+64)) - 32
	}
	return r.base + uint64(r.IntN(chainMemory))&^7
}

func (r chainMaker) mask() uint64 {
	switch r.IntN(6) {
	case 0:
		return ^uint64(7)
	case 1:
		return r.Uint64()
	}
	return 0
}

func (r chainMaker) steps(n int) (steps []language.Step) {
	for range n {
		s := language.Step{Op: language.Load, Offset: int64(r.IntN(5) * 8), Scale: uint32(r.IntN(4) * 8)}
		if s.Limit = r.Uint32(); r.IntN(3) == 0 {
			s.Op = language.Op(1 + r.IntN(7))
		}
		if s.Op == language.Running {
			s.Limit %= language.MaxSteps
		}
		if s.Op == language.Absolute {
			s.Offset = int64(r.near())
		}
		steps = append(steps, s)
	}
	return steps
}

func (r chainMaker) word(l *language.Layout, blocks int) language.Word {
	b := r.IntN(blocks)
	return language.Word{Block: b, Offset: r.IntN(l.Blocks[b].Bytes/8) * 8, Mask: r.mask()}
}

func (r chainMaker) layout() (l language.Layout) {
	l.Blocks = []language.Block{{Bytes: 8 + r.IntN(8)*8, Offset: int64(r.IntN(3)*8) - 8}}
	for len(l.Blocks) < 1+r.IntN(language.MaxBlocks) {
		l.Blocks = append(l.Blocks, language.Block{
			At: r.word(&l, len(l.Blocks)), Bytes: 8 + r.IntN(16)*8, Offset: int64(r.IntN(5)*8) - 16,
		})
	}
	for range 1 + r.IntN(language.MaxWords) {
		l.Words = append(l.Words, r.word(&l, len(l.Blocks)))
	}
	for range r.IntN(language.MaxCookieWords + 1) {
		l.Cookie = append(l.Cookie, r.word(&l, len(l.Blocks)))
	}
	l.Code = r.IntN(len(l.Words)+1) - 1
	return l
}

// spec returns a Spec that the kernel accepts.
func (r chainMaker) spec() *language.Spec {
	c := &language.Chain{Start: r.steps(r.IntN(3)), Frame: r.layout()}
	first := language.Step{Op: language.ThreadPointer, Offset: int64(r.IntN(4) * 8)}
	if r.IntN(3) == 0 {
		first.Op = language.Global
	}
	c.Start = append([]language.Step{first}, c.Start...)
	if r.IntN(3) == 0 {
		c.Find = &language.Find{Word: int64(r.IntN(3) * 8), To: language.Owner(1 + r.IntN(2)), Next: int64(r.IntN(3) * 8)}
		c.Then = r.steps(r.IntN(3))
	}
	c.Next = language.Next{Word: r.IntN(len(c.Frame.Words)), Mask: r.mask(), Offset: int64(r.IntN(2) * 8)}
	if r.IntN(4) == 0 {
		c.Next = language.Next{Word: -1, Offset: int64(1+r.IntN(8)) * 8}
	}
	if r.IntN(3) == 0 {
		c.Stop = &language.Test{Word: r.IntN(len(c.Frame.Words)), Mask: 0x18, Value: uint64(r.IntN(4) * 8)}
	}
	return &language.Spec{Chain: c}
}

func (r chainMaker) fill(c *chainCase) {
	c.Base, c.Pointer, c.Bias = r.base, r.near(), r.near()
	for at := 0; at < chainMemory; at += 8 {
		binary.LittleEndian.PutUint64(c.Memory[at:], r.near())
	}
	c.ID = uint64(binary.LittleEndian.Uint32(c.Memory[r.IntN(chainMemory/8)*8:]))
}

// TestChainParity walks random chains by bpf/language/chain.h and by package chain.
func TestChainParity(t *testing.T) {
	if _, err := os.Stat("../../bpf"); err != nil {
		t.Skip(err) // the machines of integration/kernels have this test, and neither sources nor a compiler
	}
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), "chain")
	build := exec.Command("gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
		"-Wno-unknown-pragmas", "-fsanitize=undefined,address", "-fno-sanitize-recover", "-I../../bpf",
		"-o", program, "testdata/chain.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	r := chainMaker{rand.New(rand.NewPCG(3, 4)), 0x7ff0_0000_1000}
	cases, specs := make([]chainCase, 5000), make([]*language.Spec, 5000)
	for i := range cases {
		specs[i] = r.spec()
		if err := specs[i].Check(); err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		cases[i].Interpreter = encodeInterpreter(specs[i])
		r.fill(&cases[i])
	}
	var in, problems bytes.Buffer
	if err := binary.Write(&in, binary.LittleEndian, cases); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = &in, &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &problems)
	}
	results := make([]chainResult, len(cases))
	if err := binary.Read(bytes.NewReader(out), binary.LittleEndian, results); err != nil {
		t.Fatal(err)
	}
	ends, frames := map[language.ChainEnd]int{}, 0
	for i := range cases {
		want := walkInGo(specs[i].Chain, &cases[i])
		if d := cmp.Diff(want, results[i]); d != "" {
			t.Fatalf("case %d, %+v: -Go +C\n%s", i, *specs[i].Chain, d)
		}
		ends[language.ChainEnd(want.End)]++
		frames += int(want.Frames)
	}
	t.Logf("%d frames, ends %v", frames, ends)
	if len(ends) < int(language.NumChainEnds)-1 || frames < len(cases) {
		t.Errorf("cases are too much alike: %d frames, ends %v", frames, ends)
	}
}

// walkInGo does the same as testdata/chain.c.
func walkInGo(c *language.Chain, m *chainCase) (out chainResult) {
	end := chain.Walk(c, m.thread(), m, func(words []uint64, cookie uint64) {
		to := &out.Words[out.Frames%chainFrames]
		*to = [language.MaxWords + 1]uint64{}
		copy(to[:], words)
		to[language.MaxWords] = cookie
		out.Frames++
	})
	out.End = uint64(end)
	return out
}
