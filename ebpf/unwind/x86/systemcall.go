package x86

// SystemCalls tracks consecutive instructions and knows the number of a system call if the
// instructions before it set the number directly. Its zero value is ready to use.
type SystemCalls struct {
	number int64 // value of rax
	known  bool
}

// Numbers of system calls (Linux, arch/x86/entry/syscalls, syscall_64.tbl and syscall_32.tbl).
const (
	exit64, exitGroup64 = 60, 231
	exit32, exitGroup32 = 1, 252
)

// Exits reports whether in ends the thread or the process. in must follow the instruction of the
// previous call.
func (s *SystemCalls) Exits(in *Instruction) bool {
	const syscall, interrupt, gate = 0x05, 0xcd, 0x80
	var exit, exitGroup int64
	switch {
	case in.Vector:
	case in.Table == 1 && in.Opcode == syscall:
		exit, exitGroup = exit64, exitGroup64
	case in.Table == 0 && in.Opcode == interrupt && byte(in.Imm) == gate:
		exit, exitGroup = exit32, exitGroup32
	}
	if exit != 0 {
		exits := s.known && (s.number == exit || s.number == exitGroup)
		s.known = false
		return exits
	}
	s.number, s.known = s.after(in)
	return false
}

// after returns the value of rax after an instruction.
func (s *SystemCalls) after(in *Instruction) (number int64, known bool) {
	op := in.Opcode
	switch {
	case in.Table != 0 || in.Vector || in.Short:
		return 0, false
	case op == 0xb8 && in.RM == RAX, op == 0xc7 && in.isRegister(RAX): // mov
		return in.Imm, true
	case (op == 0x31 || op == 0x33) && in.Reg == RAX && in.isRegister(RAX): // xor
		return 0, true
	case op == 0xb0 && in.RM == RAX && s.number&^0xff == 0: // mov to its lowest byte
		return in.Imm & 0xff, s.known
	}
	return s.number, s.known && in.sparesRAX()
}

// sparesRAX reports whether an instruction is typical before a system call and does not write rax.
func (in *Instruction) sparesRAX() bool {
	switch op := in.Opcode; {
	case op >= 0x50 && op < 0x58: // push
		return true
	case op >= 0xb8 && op <= 0xbf: // mov
		return in.RM != RAX
	case op == 0x01, op == 0x03, op == 0x21, op == 0x23, op == 0x29, op == 0x2b, op == 0x31, op == 0x33, op == 0x39,
		op == 0x3b, op == 0x85, op == 0x89, op == 0x8b, op == 0x8d:
		return in.Reg != RAX && !in.isRegister(RAX)
	case op == 0x81, op == 0x83, op == 0xc7:
		return !in.isRegister(RAX)
	}
	return false
}
