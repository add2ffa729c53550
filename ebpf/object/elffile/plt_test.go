package elffile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// objdumpStubs lists the stubs that objdump names, by address.
func objdumpStubs(t *testing.T, path string) map[string]string {
	t.Helper()
	label := regexp.MustCompile(`^([0-9a-f]{16}) <(.*)@plt>:`)
	stubs := map[string]string{}
	for line := range strings.Lines(run(t, "objdump", "-d", "-j", ".plt", "-j", ".plt.got", "-j", ".plt.sec", path)) {
		if m := label.FindStringSubmatch(line); m != nil {
			stubs[m[1]] = m[2]
		}
	}
	return stubs
}

func TestStubsMatchObjdump(t *testing.T) {
	source := helloProgram
	paths := []string{
		libc(t), "/bin/ls",
		compile(t, source), compile(t, source, "-no-pie", "-fno-pie"),
		compile(t, source, "-fcf-protection=full", "-Wl,-z,ibtplt"), compile(t, source, "-Wl,-z,now"),
		compile(t, source, "-static"),
	}
	for _, path := range paths {
		stubs, err := open(t, path).Stubs()
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		got := map[string]string{}
		for _, s := range stubs {
			name := s.Name
			if name == "" {
				name = fmt.Sprintf("*ABS*+%#x", s.Resolver)
			}
			got[fmt.Sprintf("%016x", s.Value)] = name
		}
		want := objdumpStubs(t, path)
		for addr, name := range want {
			if got[addr] != name {
				t.Errorf("%s: %s is %q, objdump says %q", path, addr, got[addr], name)
			}
		}
		t.Logf("%s: %d stubs, objdump shows %d", path, len(got), len(want))
		if len(want) == 0 && path != paths[6] || len(got) < len(want) {
			t.Errorf("%s: %d stubs, objdump shows %d", path, len(got), len(want))
		}
	}
}

// TestStubsOfMold has the header and a stub of a table that mold 1.10 has made.
func TestStubsOfMold(t *testing.T) {
	code := []byte{
		0xf3, 0x0f, 0x1e, 0xfa, // endbr64
		0x41, 0x53, // push %r11
		0xff, 0x35, 0xe4, 0x24, 0x00, 0x00, // push 0x3bc0
		0xff, 0x25, 0xe6, 0x24, 0x00, 0x00, // jmp *0x3bc8
		0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
		0xf3, 0x0f, 0x1e, 0xfa, // endbr64
		0x41, 0xbb, 0x01, 0x00, 0x00, 0x00, // mov $1, %r11d
		0xff, 0x25, 0xd0, 0x24, 0x00, 0x00, // jmp *0x3bd0
	}
	want := []stub{{start: 0x16f0, size: 16, slot: 0x3bd0, index: -1}}
	if got := stubsX86(code, 0x16d0, 16); !slices.Equal(got, want) {
		t.Errorf("%+x, want %+x", got, want)
	}
}

// The instructions are from AArch64's "PLT Sequences", encoded by hand.
func TestStubsOfAArch64(t *testing.T) {
	code := []byte{
		0x5f, 0x24, 0x03, 0xd5, // bti c
		0x10, 0x00, 0x00, 0xb0, // adrp x16, page + 0x1000
		0x11, 0x0e, 0x40, 0xf9, // ldr x17, [x16, 0x18]
		0x10, 0x62, 0x00, 0x91, // add x16, x16, 0x18
		0x20, 0x02, 0x1f, 0xd6, // br x17
		0xf0, 0xff, 0xff, 0xf0, // adrp x16, page - 0x1000
		0x11, 0x02, 0x40, 0xf9, // ldr x17, [x16]
		0x10, 0x02, 0x00, 0x91, // add x16, x16, 0
		0x20, 0x02, 0x1f, 0xd6, // br x17
	}
	want := []stub{{start: 0x10020, size: 20, slot: 0x11018, index: -1},
		{start: 0x10034, size: 16, slot: 0xf000, index: -1}}
	if got := stubsArm64(code, 0x10020); !slices.Equal(got, want) {
		t.Errorf("%+x, want %+x", got, want)
	}
}
