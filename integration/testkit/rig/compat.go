package rig

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
)

// Need32Bit skips a test if the kernel runs no 32-bit programs. Guests of PVM do not, independently of their kernel
// configuration.
func Need32Bit(t testing.TB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exit386")
	testkit.WriteProgram(t, path, exit386())
	switch err := exec.Command(path).Run(); {
	case errors.Is(err, syscall.ENOEXEC):
		t.Skip("the kernel of this machine runs no 32-bit programs")
	case err != nil:
		t.Fatal(err)
	}
}

// exit386 is a 32-bit program that ends at once.
func exit386() []byte {
	const at, headers = 0x10000, 52 + 32
	code := []byte{
		0xb8, 1, 0, 0, 0, // mov $1, %eax (exit)
		0x31, 0xdb, // xor %ebx, %ebx
		0xcd, 0x80, // int $0x80
	}
	size := uint32(headers + len(code))
	header := elf.Header32{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_386), Version: 1, Entry: at + headers, Phoff: 52,
		Ehsize: 52, Phentsize: 32, Phnum: 1,
	}
	copy(header.Ident[:], elf.ELFMAG+"\x01\x01\x01") // 32 bits, little-endian, version 1
	text := elf.Prog32{
		Type: uint32(elf.PT_LOAD), Vaddr: at, Paddr: at, Filesz: size, Memsz: size,
		Flags: uint32(elf.PF_R | elf.PF_X), Align: 4096,
	}
	var out bytes.Buffer
	for _, part := range []any{header, text, code} {
		_ = binary.Write(&out, binary.LittleEndian, part) // to memory
	}
	return out.Bytes()
}
