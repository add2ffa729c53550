package reference

import (
	"debug/elf"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// TestHistory checks that the mapping of an address depends on the time.
func TestHistory(t *testing.T) {
	code := func(start, end, inode uint64) mapping {
		return mapping{start: start, end: end, inode: inode, path: "/nowhere"} // which cannot be opened
	}
	ps := &processes{byPID: map[uint32]*process{}, files: map[fileKey]*File{}, vdso: &File{}}
	for inode := range uint64(9) {
		ps.files[fileKey{inode: inode}] = &File{}
	}
	ps.apply([]event{
		{kind: mapped, time: 10, pid: 1, mapping: code(0x1000, 0x3000, 1)},
		{kind: mapped, time: 20, pid: 1, mapping: code(0x2000, 0x4000, 2)}, // over a part of it
		{kind: forked, time: 30, pid: 2, parent: 1},
		{kind: mapped, time: 40, pid: 1, mapping: code(0x1000, 0x2000, 3)}, // not in the child
		{kind: mapped, time: 50, pid: 2, mapping: code(0x3000, 0x4000, 4)}, // only in the child
		{kind: execed, time: 60, pid: 2},
		{kind: mapped, time: 70, pid: 2, mapping: code(0x1000, 0x2000, 5)},
		// An event of another CPU, read late.
		{kind: mapped, time: 15, pid: 1, mapping: code(0x2000, 0x3000, 6)},
		// Events of a child may be read before its fork.
		{kind: mapped, time: 90, pid: 3, mapping: code(0x3000, 0x4000, 7)},
		{kind: forked, time: 80, pid: 3, parent: 1},
		{kind: exited, time: 100, pid: 3},
		{kind: forked, time: 110, pid: 3, parent: 2}, // the PID is reused
	})
	for _, test := range []struct {
		pid               uint32
		addr, time, inode uint64
	}{
		{1, 0x1000, 5, 0}, {1, 0x1000, 10, 1}, {1, 0x2000, 12, 1}, {1, 0x2000, 16, 6}, {1, 0x2000, 25, 2},
		{1, 0x3fff, 25, 2}, {1, 0x4000, 25, 0},
		{1, 0x1000, 45, 3}, {1, 0x3000, 55, 2},
		{2, 0x1000, 45, 1}, {2, 0x2000, 45, 2}, {2, 0x3000, 55, 4}, {2, 0x2000, 65, 0}, {2, 0x1000, 65, 0},
		{2, 0x1000, 75, 5},
		{3, 0x1000, 115, 5}, {3, 0x3000, 115, 0},
	} {
		got := uint64(0)
		if c := ps.byPID[test.pid].findMapping(test.addr, test.time); c != nil {
			got = c.mapping.inode
		}
		if got != test.inode {
			t.Errorf("process %d, %#x at %d: file %d, want %d", test.pid, test.addr, test.time, got, test.inode)
		}
	}
	ps.apply([]event{{kind: exited, time: 120, pid: 3}})
	ps.sweep(121 + keepEnded)
	if ps.byPID[3] != nil || ps.files[fileKey{inode: 5}] == nil || ps.files[fileKey{inode: 8}] != nil {
		t.Error("swept: want the process that has ended and the file that nobody has")
	}
}

// TestWalk checks that a return address after the last byte of a function, whose call does not return, has the rules of
// the call, and that every end has its reason.
func TestWalk(t *testing.T) {
	s := &ehtest.Frames{Addr: 0x9000}
	cie := s.CIE(ehtest.CIE{Augmentation: "zR", Program: initial()})
	s.FDE(cie, 0x1000, 0x10, ehtest.Asm{}.Op(ehtest.DefCFAOffset).Uleb(16)) // ends with its call
	s.FDE(cie, 0x1010, 0x10, ehtest.Asm{}.Op(ehtest.DefCFAOffset).Uleb(64))
	s.FDE(cie, 0x1020, 0x10, nil)
	s.FDE(cie, 0x1030, 0x10, ehtest.Asm{}.Op(ehtest.Undefined).Uleb(ripColumn))
	file := fileOf(s)
	// The text is at file offset 0 and ELF virtual address 0x1000; a part of it is mapped.
	file.elf = &elf.File{Progs: []*elf.Prog{{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.PF_X, Vaddr: 0x1000,
		Filesz: 0x100}}}}
	gone := &endError{ProcessGone, "gone"}
	p := &process{changes: []change{
		{mapping: mapping{start: 0x401000, end: 0x402000}, file: file},
		{mapping: mapping{start: 0x500000, end: 0x501000}},
		{mapping: mapping{start: 0x600000, end: 0x601000}, err: gone},
	}, ended: 1}
	x86, _ := abiOf("amd64")
	u := &Unwinder{abi: x86, processes: &processes{byPID: map[uint32]*process{7: p}}, upTo: 1}
	memory := words{0x8000: 0x401010, 0x8010: 0x401034, 0x9000: 0x701234, 0x9100: 0x500800, 0x9200: 0x600800,
		0xa000: 0x40103f}.copy()
	tests := []struct {
		name   string
		pid    uint32
		pc, sp uint64
		want   []uint64
		end    End
	}{
		{"to the root", 7, 0x401024, 0x8000, []uint64{0x401024, 0x401010, 0x401034}, Outermost},
		{"an exact pc is looked up as it is", 7, 0x401020, 0xa000, []uint64{0x401020, 0x40103f}, Outermost},
		{"out of everything", 7, 0x401020, 0x9000, []uint64{0x401020, 0x701234}, NoMapping},
		{"made code", 7, 0x401020, 0x9100, []uint64{0x401020, 0x500800}, NoFile},
		{"a file that nobody can open any more", 7, 0x401020, 0x9200, []uint64{0x401020, 0x600800}, ProcessGone},
		{"a zero", 7, 0x401020, 0x8020, []uint64{0x401020}, ZeroRoot},
		{"no CFI", 7, 0x401048, 0x8000, []uint64{0x401048}, NoCFI},
		{"no process", 8, 0x401020, 0x8000, []uint64{0x401020}, ProcessGone},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stack := &Sample{Time: 1, PID: test.pid, PC: test.pc, SP: memory.sp, Stack: memory.bytes,
				Registers: map[uint64]uint64{rsp: test.sp}}
			got := u.Walk(stack)
			var pcs []uint64
			for i, f := range got.Frames {
				pcs = append(pcs, f.PC)
				if f.File != nil && f.Vaddr != f.PC-0x400000 {
					t.Errorf("frame %d: %#x is ELF virtual address %#x", i, f.PC, f.Vaddr)
				}
			}
			if got.End != test.end || !slices.Equal(pcs, test.want) {
				t.Fatalf("%#x, %s, %v, want %#x, %s", pcs, got.End, got.Err, test.want, test.end)
			}
		})
	}
}

func TestParseMapping(t *testing.T) {
	const line = "7f3a1c000000-7f3a1c021000 r-xp 0002a000 fe:01 1234                       /usr/lib/a b.so (deleted)"
	want := mapping{start: 0x7f3a1c000000, end: 0x7f3a1c021000, offset: 0x2a000, device: device{0xfe, 1}, inode: 1234,
		path: "/usr/lib/a b.so (deleted)"}
	if got, executable, err := parseMapping(line); got != want || !executable || err != nil {
		t.Errorf("%+v, %t, %v, want %+v", got, executable, err, want)
	}
	if got, executable, err := parseMapping("1000-2000 rw-p 00000000 00:00 0 "); executable || err != nil ||
		got.path != "" {
		t.Errorf("%+v, %t, %v", got, executable, err)
	}
	for _, bad := range []string{"", "1000-2000 r-xp", "x-2000 r-xp 0 00:00 0"} {
		if got, _, err := parseMapping(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}
