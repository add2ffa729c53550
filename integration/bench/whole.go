package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

// files are the executables and libraries that were mapped while something ran.
type files struct {
	seen map[fileID]*mappedFile
}

type fileID struct{ device, inode uint64 }

type mappedFile struct {
	path    string
	sampled bool // some frame of a sample was in it
}

func newFiles() *files { return &files{seen: map[fileID]*mappedFile{}} }

// scan notes what the processes that run now have mapped to be executed.
func (f *files) scan() {
	pids, _ := procfs.Default.PIDs()
	for _, pid := range pids {
		mappings, _ := procfs.Default.ExecMappings(pid) // gone, or a kernel thread
		for _, m := range mappings {
			f.add(m.Path)
		}
	}
}

// add notes a file, unless it has been deleted or is in another mount namespace.
func (f *files) add(path string) *mappedFile {
	var status syscall.Stat_t
	if !strings.HasPrefix(path, "/") || syscall.Stat(path, &status) != nil {
		return nil
	}
	id := fileID{uint64(status.Dev), status.Ino}
	if f.seen[id] == nil {
		f.seen[id] = &mappedFile{path: path}
	}
	return f.seen[id]
}

// markSampled notes which files frames of samples are in.
func (f *files) markSampled(received []message) error {
	for _, m := range received {
		content, err := m.content()
		if err != nil {
			return err
		}
		err = eachProfile(content, func(p *profile.Profile) {
			for _, location := range p.Location {
				if location.Mapping == nil {
					continue
				}
				if file := f.add(location.Mapping.File); file != nil {
					file.sampled = true
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// wholeTables are what the whole unwind tables of some files take.
type wholeTables struct {
	Rows      int `json:"rows"`
	RowBytes  int `json:"row_bytes"`
	DirBytes  int `json:"directory_bytes"`
	files     int
	allocated uint64 // bytes of heap taken to make them
}

func (t *wholeTables) add(o wholeTables) {
	t.Rows, t.RowBytes, t.DirBytes, t.files = t.Rows+o.Rows, t.RowBytes+o.RowBytes, t.DirBytes+o.DirBytes, t.files+1
	t.allocated += o.allocated
}

// wholeSizes are those of the files that samples hit, and of all that were mapped.
type wholeSizes struct{ sampled, mapped wholeTables }

// measure returns what whole tables take. Files without unwind information take
// nothing.
func (f *files) measure(binary string) (sizes wholeSizes, err error) {
	for _, file := range f.seen {
		out, err := exec.Command(binary, "unwind-table", "--stats", "--json", file.path).Output()
		if err != nil {
			continue
		}
		var whole wholeTables
		if err := json.Unmarshal(out, &whole); err != nil {
			return sizes, fmt.Errorf("unwind-table %s: %w", file.path, err)
		}
		if whole.allocated, err = buildWhole(file.path); err != nil {
			return sizes, err
		}
		sizes.mapped.add(whole)
		if file.sampled {
			sizes.sampled.add(whole)
		}
	}
	return sizes, nil
}

// buildWhole makes all rows of a file, as profilers do that load whole tables, and
// returns the bytes of heap that it took: by the same code, but for what pages
// spare.
func buildWhole(path string) (allocated uint64, err error) {
	f, err := elffile.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	table, err := unwind.NewTable(f)
	if errors.Is(err, unwind.ErrNoUnwindInfo) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	const shift = unwind.MaxPageShift // the fewest pages
	var rows []unwind.Row
	for _, text := range f.TextSegments() {
		for n := text.Vaddr >> shift; n <= (text.Vaddr+text.Memsz-1)>>shift; n++ {
			page, err := table.Page(n, shift)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", path, err)
			}
			rows = append(rows, page.Rows...)
		}
	}
	runtime.KeepAlive(rows)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, nil
}

// residentResult is what was measured under one workload.
type residentResult struct {
	most, last gauges
	heap       heapOfRows
	bpf        runs
	cpu        time.Duration
	minutes    float64
	whole      wholeSizes
}

func (r residentResult) write(out io.Writer, title string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	hit, all := r.whole.sampled, r.whole.mapped
	fmt.Fprintf(w, "%s\tHeadwater\twhole tables of the\tratio\twhole tables of the\tratio\t\n", title)
	fmt.Fprintf(w, "\t\t%d files samples hit\t\t%d files mapped\t\t\n", hit.files, all.files)
	line := func(title string, value float64, unit float64, of, ofAll float64) {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.3f\t%.2f\t%.3f\t\n", title, value/unit, of/unit, value/of, ofAll/unit, value/ofAll)
	}
	line("unwind rows resident at most, thousands", r.most.rows, 1e3, float64(hit.Rows), float64(all.Rows))
	line("MB that they take", r.most.rowBytes, 1e6, float64(hit.RowBytes), float64(all.RowBytes))
	line("MB with directories and mappings", r.most.usedBytes, 1e6, float64(hit.RowBytes+hit.DirBytes), float64(all.RowBytes+all.DirBytes))
	line("MB of heap taken by making rows, garbage included", r.heap.allocated, 1e6, float64(hit.allocated), float64(all.allocated))
	line("MB of heap in use for rows and account of them at most; beside the rows", r.heap.inUse, 1e6, float64(hit.RowBytes), float64(all.RowBytes))
	line("MB of the whole agent's heap at most, names and profiles and all; beside the rows", r.most.heap, 1e6, float64(hit.RowBytes), float64(all.RowBytes))
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "at the end %.2f MB of rows; %.1f MB of kernel memory taken for tables; BPF %.1f us a sample; %.1f copies of stacks/s, %.2f %% of samples; agent's CPU %.2f s/min\n\n",
		r.last.rowBytes/1e6, r.most.tableBytes/1e6, r.bpf.mean()/1e3, r.last.copies/r.minutes/60, 100*r.last.copies/r.last.delivered, r.cpu.Seconds()/r.minutes)
	return err
}
