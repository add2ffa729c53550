// Package worst measures how long the readers of foreign bytes take for the worst that their bounds let through. Each
// benchmark reads one input once; cpu-s/op is the CPU time of the process. SECURITY.md has the figures.
package worst

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/dwarfline"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/jit"
	"github.com/headwater/headwater/ebpf/unwind/gopclntab"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/slowelf"
)

// BenchmarkWorst reads each worst input once: go test -C integration/lab ./worst -run '^$' -bench . -benchtime 1x
func BenchmarkWorst(b *testing.B) {
	need.Tools(b, "gcc", "xz")
	for _, reader := range []struct {
		name string
		make func(b *testing.B) (read func())
	}{
		{"symbols/4194304_functions", func(b *testing.B) func() {
			return symbols(b, func(i *slowelf.Image) { i.Functions(4 << 20) })
		}},
		{"symbols/1000000_aliases_of_4_MiB", func(b *testing.B) func() {
			return symbols(b, func(i *slowelf.Image) { i.Names(1_000_000) })
		}},
		{"eh_frame_without_index/512_MiB", frames},
		{"dwarf/line_program_of_67108864_steps", lines},
		{"dwarf/1048576_units", units},
		{"compressed_section/1_GiB", compressed},
		{"mini_debug_info/28_MiB", miniDebug},
		{"debug_link/2_GiB", link},
		{"gopclntab/search_in_1_GiB", search},
		{"perf_map/256_MiB_of_short_lines", func(b *testing.B) func() { return perfMap(b, "1") }},
		{"perf_map/256_MiB_of_other_addresses", func(b *testing.B) func() { return perfMap(b, "") }},
		{"interpreter_memory/65536_reads_of_1_KiB", memory},
		{"maps/60000_mappings_of_long_paths", maps},
	} {
		b.Run(reader.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				read := reader.make(b)
				debug.FreeOSMemory()
				before := cpuTime(b)
				b.StartTimer()
				read()
				b.StopTimer()
				b.ReportMetric((cpuTime(b) - before).Seconds(), "cpu-s/op")
				b.StartTimer()
			}
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// program compiles a small program, and changes its image.
func program(b *testing.B, change func(*slowelf.Image)) (path string, text uint64) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "program")
	build := exec.Command("gcc", "-O1", "-Wl,--build-id=none", "-x", "c", "-o", path, "-")
	build.Stdin = strings.NewReader("int main(void) { return 0; }")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	image := slowelf.Read(b, path)
	change(image)
	image.Write(b, path)
	text, _ = image.Text()
	return path, text
}

// symbols names an address of a program.
func symbols(b *testing.B, change func(*slowelf.Image)) func() {
	path, text := program(b, change)
	s := symbol.New(symbol.Options{DebugDirs: []string{b.TempDir()}})
	b.Cleanup(s.Close)
	o := &symbol.Object{ID: 1, Path: path, Open: func() (*elffile.File, error) { return elffile.Open(path) }}
	return func() {
		b.Logf("%+v", s.Frames(o, text, false)[0].Kind)
	}
}

func frames(b *testing.B) func() {
	path, _ := program(b, func(i *slowelf.Image) { i.Frames(512 << 20) })
	file, err := elffile.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	return func() {
		table, err := unwindtable.New(file)
		if err != nil {
			b.Fatal(err)
		}
		table.MakeIndex()
		b.Logf("%d entries", table.FDEs())
	}
}

// Of DWARF 4: a unit of one entry that covers all addresses, with a line program.
var (
	abbreviations = []byte{1, 0x11, 0, 0x11, 1, 0x12, 6, 0x10, 0x17, 0, 0, 0}
	unitBody      = []byte{4, 0, 0, 0, 0, 0, 8, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0}
)

func lines(b *testing.B) func() {
	header := []byte{1, 1, 1, 0, 1, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0}
	line := binary.LittleEndian.AppendUint16(make([]byte, 4), 4)
	line = binary.LittleEndian.AppendUint32(line, uint32(len(header)))
	line = append(line, header...)
	line = append(line, 0, 9, 2, 0, 16, 0, 0, 0, 0, 0, 0)         // DW_LNE_set_address
	line = append(line, bytes.Repeat([]byte{11}, 1<<26+1<<20)...) // one address further
	line = append(line, 0, 1, 1)                                  // DW_LNE_end_sequence
	binary.LittleEndian.PutUint32(line, uint32(len(line)-4))
	info := append(binary.LittleEndian.AppendUint32(nil, uint32(len(unitBody))), unitBody...)
	return lookup(b, &dwarfline.Sections{Order: binary.LittleEndian, Info: info, Abbrev: abbreviations, Line: line})
}

func units(b *testing.B) func() {
	unit := append(binary.LittleEndian.AppendUint32(nil, uint32(len(unitBody))), unitBody...)
	return lookup(b, &dwarfline.Sections{Order: binary.LittleEndian, Info: bytes.Repeat(unit, 1<<20),
		Abbrev: abbreviations})
}

func lookup(b *testing.B, s *dwarfline.Sections) func() {
	data, err := dwarfline.New(s, dwarfline.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(data.Close)
	return func() {
		found, err := data.Frames(1 << 26) // near the end of the line program
		b.Logf("%d frames: %v", len(found), err)
	}
}

// noise returns bytes of 4 bits each, which compress to the half: the slowest to decompress.
func noise(size int) []byte {
	random, out := rand.New(rand.NewPCG(1, 2)), make([]byte, size)
	for i := range out {
		out[i] = byte(random.Uint32()) & 15
	}
	return out
}

func compressed(b *testing.B) func() {
	const size = elffile.DefaultFileSpill
	var piece bytes.Buffer
	w, err := flate.NewWriter(&piece, flate.HuffmanOnly)
	if err != nil {
		b.Fatal(err)
	}
	one := noise(1 << 20)
	if _, err := w.Write(one); err != nil {
		b.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	section := append(binary.BigEndian.AppendUint64([]byte("ZLIB"), size), 0x78, 0xda)
	section = append(section, bytes.Repeat(piece.Bytes(), size/len(one))...)
	section = append(section, 1, 0, 0, 0xff, 0xff, 0, 0, 0, 0) // no check sum: all is read before it is compared
	path, _ := program(b, func(i *slowelf.Image) { i.Add(b, ".zdebug_str", section) })
	file, err := elffile.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	return func() {
		data, err := file.MapSection(".debug_str", &elffile.Spill{})
		b.Log(err)
		if err == nil {
			data.Close()
		}
	}
}

func miniDebug(b *testing.B) func() {
	xz := exec.Command("xz", "-0", "--format=xz", "--check=crc32")
	xz.Stdin = bytes.NewReader(noise(28 << 20))
	packed, err := xz.Output()
	if err != nil {
		b.Fatal(err)
	}
	if len(packed) > symbol.MaxMiniDebug {
		b.Fatalf("%d bytes, more than the reader takes", len(packed))
	}
	return symbols(b, func(i *slowelf.Image) { i.Add(b, ".gnu_debugdata", packed) })
}

// link has a program whose debug file has the maximum size, and is identified only by a checksum of its content.
func link(b *testing.B) func() {
	name := append([]byte("large.debug\x00"), 1, 2, 3, 4)
	path, text := program(b, func(i *slowelf.Image) { i.Add(b, ".gnu_debuglink", name) })
	debugFile := filepath.Join(filepath.Dir(path), "large.debug")
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(debugFile, content, 0o600)
	}
	if err == nil {
		err = os.Truncate(debugFile, debugfile.MaxLinked)
	}
	if err != nil {
		b.Fatal(err)
	}
	s := symbol.New(symbol.Options{DebugDirs: []string{b.TempDir()}})
	b.Cleanup(s.Close)
	o := &symbol.Object{ID: 1, Path: path, Open: func() (*elffile.File, error) { return elffile.Open(path) }}
	return func() {
		s.Frames(o, text, false)
		b.Logf("%v", s.Problems())
	}
}

// goImage looks like a stripped Go program that contains only places that look like its table.
type goImage struct{ content []byte }

func (goImage) IsGo() bool        { return true }
func (goImage) HasSections() bool { return false }
func (goImage) SectionRange(string) (start, end uint64, ok bool) {
	return 0, 0, false
}
func (i goImage) LoadRanges() [][2]uint64 { return [][2]uint64{{0, uint64(len(i.content))}} }
func (i goImage) ReadVaddr(p []byte, vaddr uint64) error {
	if vaddr > uint64(len(i.content)) || copy(p, i.content[vaddr:]) < len(p) {
		return fmt.Errorf("0x%x is not there", vaddr)
	}
	return nil
}
func (goImage) RelativeRelocations(func(at, value uint64) bool) error { return nil }

func search(b *testing.B) func() {
	content := make([]byte, gopclntab.MaxScan)
	for i := range gopclntab.MaxCandidates {
		binary.LittleEndian.PutUint32(content[len(content)-64*(i+1):], 0xfffffff1)
	}
	return func() {
		_, err := gopclntab.Open(goImage{content})
		b.Logf("%v", err)
	}
}

// perfMap writes the map of this process, with lines at one address or at different ones.
func perfMap(b *testing.B, addr string) func() {
	path := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())
	content := make([]byte, 0, jit.MaxRead)
	for i := 0; len(content) < jit.MaxRead-32; i++ {
		if addr == "" {
			content = fmt.Appendf(content, "%x 1 a\n", i)
		} else {
			content = append(append(content, addr...), " 1 a\n"...)
		}
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.Remove(path) })
	pid := uint32(os.Getpid())
	p := jit.New(procfs.Default, &filework.Pool{}, jit.DefaultBytes)
	b.Cleanup(p.Close)
	return func() {
		p.Observe(pid)
		p.Read(pid, []uint64{1})
		b.Logf("%+v", p.Stats())
	}
}

// memory reads of another process what readers of interpreters may at once.
func memory(b *testing.B) func() {
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { other.Process.Kill(); other.Wait() })
	pid := uint32(other.Process.Pid)
	var stack procfs.Mapping
	for stack.Start == 0 {
		mappings, err := procfs.Default.Mappings(pid)
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range mappings {
			if m.Path == "[stack]" {
				stack = m
			}
		}
	}
	return func() {
		piece := make([]byte, 1024)
		for range engine.MaxReadsAtOnce {
			if _, err := procfs.Default.Memory(pid).ReadAt(piece, int64(stack.End-4096)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// maps has this process map a file with a long path as often as the kernel lets it.
func maps(b *testing.B) func() {
	dir := b.TempDir()
	for len(dir) < 3500 {
		dir = filepath.Join(dir, strings.Repeat("d", 250))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const pages, mapped = 60_000, unix.PROT_READ
	page := os.Getpagesize()
	if err := f.Truncate(int64(pages * page)); err != nil {
		b.Fatal(err)
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, pages*page, mapped, unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Munmap(memory) })
	for i := 0; i < pages; i += 2 {
		if err := unix.Mprotect(memory[i*page:][:page], unix.PROT_NONE); err != nil {
			b.Fatal(err)
		}
	}
	return func() {
		found, err := procfs.Default.Mappings(uint32(os.Getpid()))
		b.Logf("%d mappings: %v", len(found), err)
	}
}
