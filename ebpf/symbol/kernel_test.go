package symbol

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headwater/headwater/integration/testkit/need"
)

const kallsyms = `ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t first
ffffffff81000180 W weak_function
ffffffff81000200 D data_object
ffffffff81000280 t after_data
ffffffffc0001000 t module_function	[nf_tables]
ffffffffc0001040 t module_last	[nf_tables]
ffffffffc0400000 t bpf_prog_abc_name	[bpf]
`

func kernelOf(t *testing.T, text string) *Symbolizer {
	t.Helper()
	return New(Options{Kallsyms: writeFile(t, []byte(text), t.TempDir(), "kallsyms")})
}

func TestKernel(t *testing.T) {
	s := kernelOf(t, kallsyms)
	for addr, want := range map[uint64]Frame{
		0xffffffff81000000: {Function: "_text", File: "[kernel]", Kind: Kernel},
		0xffffffff810000ff: {Function: "_text", File: "[kernel]", Kind: Kernel},
		0xffffffff81000100: {Function: "first", File: "[kernel]", Kind: Kernel},
		0xffffffff810001ff: {Function: "weak_function", File: "[kernel]", Kind: Kernel},
		0xffffffff81000210: {Function: "0xffffffff81000210", File: "[kernel]", Kind: Unknown},
		0xffffffff81000280: {Function: "after_data", File: "[kernel]", Kind: Kernel},
		0xffffffff90000000: {Function: "0xffffffff90000000", File: "[kernel]", Kind: Unknown},
		0xffffffffc0001000: {Function: "module_function", File: "[nf_tables]", Kind: Kernel},
		0xffffffffc0001050: {Function: "module_last", File: "[nf_tables]", Kind: Kernel},
		0xffffffffc0200000: {Function: "0xffffffffc0200000", File: "[kernel]", Kind: Unknown},
		0xffffffffc0400010: {Function: "bpf_prog_abc_name", File: "[bpf]", Kind: Kernel},
		0x1000:             {Function: "0x1000", File: "[kernel]", Kind: Unknown},
	} {
		if got := s.Kernel(addr, false); got != want {
			t.Errorf("%#x: %+v, want %+v", addr, got, want)
		}
	}
	if got := s.Kernel(0xffffffff81000180, true).Function; got != "first" {
		t.Errorf("return to the end of first: %s", got)
	}
	if got := s.Kernel(0xffffffff81000000, true).Function; got != "0xffffffff80ffffff" {
		t.Errorf("return to the begin of the text: %s", got)
	}
	if status := s.KernelStatus(); status.Reason != Named || status.Symbols != 7 || status.Err != nil {
		t.Errorf("status %+v", status)
	}
}

// TestKernelPadding: symbols of the padding before functions are found, although they are not stored if the next line
// is their function.
func TestKernelPadding(t *testing.T) {
	s := kernelOf(t, `ffffffff81000000 t before
ffffffff810000f0 t __pfx_padded
ffffffff81000100 t padded
ffffffff81000100 t alias
ffffffff810001f0 t __pfx_other
ffffffff81000200 t not_other
ffffffff810002f0 t __pfx_a
ffffffff810002f0 t __pfx_b
ffffffff81000300 t b
ffffffff81000300 t a
ffffffffc0000ff0 t __pfx_in_module	[m]
ffffffffc0001000 t in_module	[m]
ffffffffc0001010 t __pfx_last	[m]
`)
	for addr, want := range map[uint64]string{
		0xffffffff810000ef: "before",
		0xffffffff810000f0: "__pfx_padded",
		0xffffffff810000ff: "__pfx_padded",
		0xffffffff81000100: "padded",
		0xffffffff810001ef: "padded",
		0xffffffff810001f8: "__pfx_other",
		0xffffffff81000200: "not_other",
		0xffffffff810002f8: "__pfx_a",
		0xffffffff81000300: "b",
		0xffffffffc0000fef: "0xffffffffc0000fef",
		0xffffffffc0000ff0: "__pfx_in_module",
		0xffffffffc0001000: "in_module",
		0xffffffffc0001010: "__pfx_last",
	} {
		if got := s.Kernel(addr, false); got.Function != want {
			t.Errorf("%#x: %+v, want %s", addr, got, want)
		}
	}
	if got := s.Kernel(0xffffffffc0000ff0, false).File; got != "[m]" {
		t.Errorf("padding in a module: %s", got)
	}
	if status := s.KernelStatus(); status.Symbols != 10 {
		t.Errorf("status %+v", status)
	}
}

func TestKernelHidden(t *testing.T) {
	s := kernelOf(t, "0000000000000000 T _text\n0000000000000000 t first\n")
	if got, want := s.Kernel(0xffffffff81000000, false),
		(Frame{Function: "0xffffffff81000000", File: "[kernel]"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if status := s.KernelStatus(); status.Reason != KernelHidden || !errors.Is(status.Err, ErrKernelHidden) {
		t.Errorf("status %+v", status)
	}
}

func TestKernelUnreadable(t *testing.T) {
	s := New(Options{Kallsyms: t.TempDir() + "/missing"})
	if got := s.Kernel(5, false); got.Function != "0x5" {
		t.Errorf("%+v", got)
	}
	if status := s.KernelStatus(); status.Reason != Unreadable || !errors.Is(status.Err, os.ErrNotExist) {
		t.Errorf("status %+v", status)
	}
	if status := kernelOf(t, "no symbols here\n").KernelStatus(); status.Reason != Unreadable ||
		!strings.Contains(status.Err.Error(), "malformed") {
		t.Errorf("status %+v", status)
	}
}

func TestRefreshKernel(t *testing.T) {
	s := kernelOf(t, kallsyms)
	const addr = 0xffffffffc0800000
	if got := s.Kernel(addr, false); got.Kind != Unknown {
		t.Errorf("%+v", got)
	}
	writeFile(t, []byte(kallsyms+"ffffffffc0800000 t loaded_later\t[late]\n"), s.kernel.path)
	if err := s.RefreshKernel(); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Kernel(addr, false), (Frame{Function: "loaded_later", File: "[late]",
		Kind: Kernel}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	writeFile(t, []byte("broken"), s.kernel.path)
	if err := s.RefreshKernel(); err == nil {
		t.Error("no error for a broken file")
	}
	if got := s.Kernel(addr, false); got.Function != "loaded_later" {
		t.Errorf("the old symbols are gone: %+v", got)
	}
}

// Every text symbol of the running kernel is found at its own address, with the first name listed there.
func TestRunningKernel(t *testing.T) {
	content, err := os.ReadFile(DefaultKallsyms)
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{})
	s.Kernel(0, false)
	if status := s.KernelStatus(); status.Reason == KernelHidden {
		need.Missing(t, "%v", status.Err)
	}
	first := map[string]bool{}
	wrong := 0
	for line := range strings.Lines(string(content)) {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.Contains("tTwW", f[1]) || first[f[0]] {
			continue
		}
		first[f[0]] = true
		file := "[kernel]"
		if len(f) > 3 {
			file = f[3]
		}
		want := Frame{Function: f[2], File: file, Kind: Kernel}
		if got := s.Kernel(parseHex(t, f[0]), false); got != want {
			if wrong++; wrong < 10 {
				t.Errorf("%s: %+v, want %+v", f[0], got, want)
			}
		}
	}
	if len(first) < 1000 || wrong > 0 {
		t.Errorf("%d of %d symbols wrong", wrong, len(first))
	}
}

func FuzzKallsyms(f *testing.F) {
	f.Add([]byte(kallsyms), uint64(0xffffffff81000101))
	f.Add([]byte("0 t a\nffffffffffffffff T b\x80\t[m]\n"), uint64(1)<<63)
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		symbols, err := parseKallsyms(bytes.NewReader(data))
		if err != nil {
			return
		}
		table := newKernelTable(symbols)
		if frame := table.frame(addr); !utf8.ValidString(frame.Function) || !utf8.ValidString(frame.File) ||
			frame.Function == "" {
			t.Errorf("%+v", frame)
		}
		for i, r := range table.ranges {
			if i > 0 && table.ranges[i-1].start+uint64(table.ranges[i-1].size) > r.start {
				t.Errorf("ranges %d and %d overlap", i-1, i)
			}
		}
	})
}
