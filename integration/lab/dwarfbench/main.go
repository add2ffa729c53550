// Command dwarfbench compares the cost of symbolizing addresses of a program with full debug information: package
// dwarfline against addr2line, elfutils' and LLVM's, in one run.
//
//	integration/lab/run dwarfbench [-n 1000] [-record FILE] [FILE...]
package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/headwater/headwater/ebpf/object/dwarfline"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/record"
)

func main() {
	log.SetFlags(0)
	n := flag.Int("n", 1000, "distinct addresses")
	save := flag.String("record", "", "save what is measured to this file")
	child := flag.String("child", "", "symbolize the addresses on standard input: how the command runs itself")
	flag.Parse()
	if *child != "" {
		if err := symbolize(*child); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := runFiles(flag.Args(), *n, *save); err != nil {
		log.Fatal(err)
	}
}

// runFiles compares the tools on each file, or on libc if no file is given, and saves the figures if save is not "".
func runFiles(files []string, n int, save string) error {
	var recorder *record.Recorder
	if save != "" {
		var err error
		if recorder, err = record.Start(command(files, n)); err != nil {
			return err
		}
	}
	if len(files) == 0 {
		files = findLibc()
	}
	var all []comparison
	for _, file := range files {
		c, err := compare(file, n)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, c)
	}
	if recorder == nil {
		return nil
	}
	return recorder.Save(save, all)
}

// command is the command line that repeats a run.
func command(files []string, n int) string {
	return strings.TrimSpace(fmt.Sprintf("integration/lab/run dwarfbench -n %d %s", n, strings.Join(files, " ")))
}

// comparison holds the costs of the tools for the same addresses of a file.
type comparison struct {
	File       string    `json:"file"`             // its name
	InfoBytes  uint64    `json:"debug_info_bytes"` // decompressed
	Addresses  int       `json:"addresses"`
	Tools      []expense `json:"tools"`
	NotPresent []string  `json:"not_installed"`
}

// expense is the cost of one tool.
type expense struct {
	Tool    string  `json:"tool"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`
	PeakMB  float64 `json:"peak_mb"`
	Frames  int     `json:"frames"`
	Lines   int     `json:"with_line"`
	notes   string
}

// findLibc returns the debug file of the C library, if its package is installed.
func findLibc() []string {
	found, _ := filepath.Glob("/lib/*/libc.so.6")
	for _, path := range found {
		if f, err := elffile.Open(path); err == nil {
			id := f.BuildID()
			f.Close()
			if debug := filepath.Join("/usr/lib/debug/.build-id", id[:2], id[2:]+".debug"); exists(debug) {
				return []string{debug}
			}
		}
	}
	log.Fatal("name a file with DWARF data, or install libc6-dbg")
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// compare runs all tools over the same addresses and prints a table.
func compare(file string, n int) (c comparison, err error) {
	addrs, err := addresses(file, n)
	if err != nil {
		return c, err
	}
	c = comparison{File: filepath.Base(file), Addresses: len(addrs), NotPresent: []string{}}
	if c.InfoBytes, err = infoBytes(file); err != nil {
		return c, err
	}
	input := []byte(strings.Join(addrs, "\n") + "\n")
	fmt.Printf("%s, %d addresses\n", file, len(addrs))
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\ttime\tCPU\tpeak memory\tframes\twith line")
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	for _, tool := range [][]string{
		{self, "-child", file},
		{"llvm-symbolizer", "--output-style=GNU", "-i", "-f", "--no-demangle", "-e", file},
		{"eu-addr2line", "-i", "-f", "-e", file},
		{"addr2line", "-i", "-f", "-e", file},
	} {
		name := filepath.Base(tool[0])
		if tool[1] == "-child" {
			name = "dwarfline"
		} else if _, err := exec.LookPath(tool[0]); err != nil {
			fmt.Fprintf(w, "%s\tnot installed\n", name)
			c.NotPresent = append(c.NotPresent, name)
			continue
		}
		e, err := measure(name, tool, input)
		if err != nil {
			return c, err
		}
		fmt.Fprintf(w, "%s\t%.2f s\t%.2f s\t%.0f MB\t%d\t%d\t%s\n",
			name, e.Seconds, e.CPU, e.PeakMB, e.Frames, e.Lines, e.notes)
		w.Flush()
		c.Tools = append(c.Tools, e)
	}
	return c, nil
}

// infoBytes returns the size of .debug_info, which determines the cost of symbolizing.
func infoBytes(file string) (uint64, error) {
	f, err := elf.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	section := f.Section(".debug_info")
	if section == nil {
		return 0, errors.New("no .debug_info")
	}
	return section.Size, nil
}

// measure runs a tool and returns its cost.
func measure(name string, tool []string, input []byte) (e expense, err error) {
	cmd := exec.Command(tool[0], tool[1:]...)
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	out, err := cmd.Output()
	if err != nil && len(out) == 0 {
		return e, fmt.Errorf("%s: %w\n%s", name, err, stderr.String())
	}
	took := time.Since(start)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	known := 0
	for _, line := range lines {
		if i := strings.LastIndex(line, ":"); i > 0 && strings.Contains(line, "/") && !strings.HasSuffix(line, ":?") &&
			!strings.HasSuffix(line, ":0") {
			known++
		}
	}
	return expense{
		Tool: name, Seconds: took.Seconds(), CPU: cpu.Seconds(), PeakMB: float64(usage.Maxrss<<10) / 1e6,
		Frames: len(lines) / 2, Lines: known, notes: strings.TrimSpace(stderr.String()),
	}, nil
}

// addresses returns n random addresses in different functions, the same in each run.
func addresses(file string, n int) ([]string, error) {
	f, err := elffile.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewSource(1))
	random.Shuffle(len(symbols), func(i, j int) { symbols[i], symbols[j] = symbols[j], symbols[i] })
	var addrs []string
	for _, s := range symbols {
		if s.Type == elf.STT_FUNC && s.Size > 0 && len(addrs) < n {
			addrs = append(addrs, fmt.Sprintf("%#x", s.Value+random.Uint64()%s.Size))
		}
	}
	return addrs, nil
}

// symbolize prints the frames at the addresses on standard input, and, on standard error, the process's memory that
// does not belong to the file.
func symbolize(file string) error {
	f, err := elffile.Open(file)
	if err != nil {
		return err
	}
	start := time.Now()
	spill := &elffile.Spill{}
	d, err := dwarfline.Open(f, dwarfline.OpenOptions{Paths: []string{file}, OpenFile: elffile.Open,
		DebugDirs: []string{"/usr/lib/debug"}, Spill: spill})
	if err != nil {
		return err
	}
	opened := time.Since(start)
	out := bufio.NewWriter(os.Stdout)
	first := time.Duration(0)
	failed := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		addr, err := strconv.ParseUint(in.Text(), 0, 64)
		if err != nil {
			return err
		}
		frames, err := d.Frames(addr)
		if err != nil {
			failed++
		}
		if first == 0 {
			first = time.Since(start) - opened
		}
		if len(frames) == 0 {
			frames = []dwarfline.Frame{{Function: "??", File: "??"}}
		}
		for _, frame := range frames {
			fmt.Fprintf(out, "%s\n%s:%d\n", frame.Function, frame.File, frame.Line)
		}
	}
	fmt.Fprintf(os.Stderr, "(opened in %.2f s, %d MiB of it decompressed to disk; first address %.2f s; "+
		"index and units %.1f MiB; anonymous memory %s; %d errors)",
		opened.Seconds(), spill.Used()>>20, first.Seconds(), float64(d.Bytes())/(1<<20), anonymous(), failed)
	return out.Flush()
}

// anonymous returns RssAnon of this process.
func anonymous() string {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
