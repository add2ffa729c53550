package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// perfData is the output of perf record to a pipe, little endian (tools/perf/Documentation/perf.data-file-format.txt).
type perfData struct{ bytes.Buffer }

func (p *perfData) record(typ uint32, misc uint16, words ...any) {
	var body bytes.Buffer
	for _, w := range words {
		if text, ok := w.(string); ok {
			w = append([]byte(text), make([]byte, 8-len(text)%8)...)
		}
		_ = binary.Write(&body, binary.LittleEndian, w) // of fixed sizes
	}
	_ = binary.Write(p, binary.LittleEndian, typ)
	_ = binary.Write(p, binary.LittleEndian, []uint16{misc, uint16(8 + body.Len())})
	p.Write(body.Bytes())
}

const (
	perfPID  = uint32(4242)
	perfBase = uint64(0x550000000000) // where the file is mapped
	perfStep = 16                     // bytes from a sample to the next
)

// samplesOf adds a sample at every sixteenth byte of the code of a file, and returns their number.
func (p *perfData) samplesOf(t *testing.T, path string) (count int) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p.WriteString("PERFILE2")
	_ = binary.Write(p, binary.LittleEndian, uint64(16))
	const sampleType, flags = 1<<0 | 1<<1, 1<<8 | 1<<23 // IP and TID; mmap and mmap2
	attr := append([]uint64{1 | 112<<32, 0, 1000, sampleType, 0, flags}, make([]uint64, 8)...)
	p.record(64, 0, attr, uint64(1))
	p.record(3, 0, perfPID, perfPID, "program")
	for _, s := range file.Progs {
		if s.Type != elf.PT_LOAD || s.Flags&elf.PF_X == 0 {
			continue
		}
		p.record(10, 2, perfPID, perfPID, perfBase+s.Vaddr, (s.Filesz+4095)&^4095, s.Off, make([]uint64, 3), uint32(5),
			uint32(2), path)
		for at := s.Vaddr; at < s.Vaddr+s.Filesz; at += perfStep {
			p.record(9, 2, perfBase+at, perfPID, perfPID)
			count++
		}
	}
	return count
}

// TestNamesWhatPerfNames has perf name addresses in all code of some files, as if they had been sampled: each address
// that perf names must also have a name here. perf extends _init and _fini, which have no size, over the data after
// their sections, such as the first entry of the linkage table.
func TestNamesWhatPerfNames(t *testing.T) {
	need.Tools(t, "perf")
	for _, name := range []string{"bin/perl", "lib/x86_64-linux-gnu/libc.so.6", "lib/x86_64-linux-gnu/libm.so.6"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			path, err := filepath.EvalSymlinks("/usr/" + name)
			if err != nil {
				need.Missing(t, "%v", err)
			}
			var data perfData
			samples := data.samplesOf(t, path)
			cmd := exec.Command("perf", "script", "-i", "-", "--no-inline", "-F", "ip,sym")
			cmd.Stdin, cmd.Env = &data, []string{"DEBUGINFOD_URLS=", "HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %v", cmd, err)
			}
			s, o := New(Options{DebugDirs: []string{"/usr/lib/debug"}}), object(t, 1, path)
			lines, named := 0, 0
			for line := range strings.Lines(string(out)) {
				var at uint64
				var theirs string
				if n, _ := fmt.Sscanf(line, "%x %s", &at, &theirs); n < 2 {
					continue
				}
				lines++
				if slices.Contains([]string{"[unknown]", "_init", "_fini"}, theirs) {
					continue
				}
				named++
				if got := s.Frames(o, at-perfBase, false); got[0].Kind == Unknown {
					t.Errorf("%#x is %s to perf, and has no name here", at-perfBase, theirs)
				}
			}
			t.Logf("%d addresses, perf names %d", samples, named)
			if lines != samples || named < samples/4 {
				t.Errorf("perf printed %d of %d addresses, %d of them with a name", lines, samples, named)
			}
		})
	}
}
