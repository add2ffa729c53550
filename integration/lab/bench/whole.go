package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
)

// files are the executables and libraries that were mapped during a workload.
type files struct {
	seen map[fileID]*mappedFile
}

type fileID struct{ device, inode uint64 }

type mappedFile struct {
	path    string
	sampled bool // a frame of a sample was in it
}

func newFiles() *files { return &files{seen: map[fileID]*mappedFile{}} }

// scanMappings records the executable mappings of all running processes.
func (f *files) scanMappings() {
	pids, _ := procfs.Default.PIDs()
	for _, pid := range pids {
		mappings, _ := procfs.Default.ExecMappings(pid) // gone, or a kernel thread
		for _, m := range mappings {
			f.addFile(m.Path)
		}
	}
}

// addFile records a file, unless it has been deleted or is in another mount namespace.
func (f *files) addFile(path string) *mappedFile {
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

// markSampled marks the files that frames of samples are in.
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
				if file := f.addFile(location.Mapping.File); file != nil {
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

// wholeTables is the size of the whole unwind tables of some files.
type wholeTables struct {
	rows, rowBytes, dirBytes int
	files                    int
	allocated                uint64 // bytes of heap allocated for building them
}

func (t *wholeTables) addStats(s unwindtable.Stats, allocated uint64) {
	t.rows, t.rowBytes, t.dirBytes, t.files = t.rows+s.Rows, t.rowBytes+s.RowBytes, t.dirBytes+s.DirBytes, t.files+1
	t.allocated += allocated
}

// wholeSizes are the sizes for the files with samples, and for all mapped files.
type wholeSizes struct{ sampled, mapped wholeTables }

// measure returns the sizes of whole tables. Files without unwind information count as zero.
func (f *files) measure() (sizes wholeSizes, err error) {
	for _, file := range f.seen {
		stats, err := wholeStats(file.path)
		if err != nil || stats.FDEs == 0 {
			continue
		}
		allocated, err := buildWhole(file.path)
		if err != nil {
			return sizes, err
		}
		sizes.mapped.addStats(stats, allocated)
		if file.sampled {
			sizes.sampled.addStats(stats, allocated)
		}
	}
	return sizes, nil
}

// wholeStats returns the size of the whole table of a file, in pages like the profiler's.
func wholeStats(path string) (unwindtable.Stats, error) {
	f, err := elffile.Open(path)
	if err != nil {
		return unwindtable.Stats{}, err
	}
	defer f.Close()
	table, err := unwindtable.New(f)
	if err != nil {
		return unwindtable.Stats{}, err
	}
	return table.Stats(f.TextSegments(), unwindtable.PageShift(f))
}

// buildWhole makes all rows of a file, like profilers that load whole tables, and returns the bytes of heap that it
// allocated. It uses the profiler's code, but without the savings from paging.
func buildWhole(path string) (allocated uint64, err error) {
	f, err := elffile.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	table, err := unwindtable.New(f)
	if errors.Is(err, unwindtable.ErrNoUnwindInfo) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	const shift = unwind.MaxPageShift // gives the fewest pages
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

// residentResult is the result for one workload.
type residentResult struct {
	most, last gauges
	heap       heapOfRows
	bpf        runs
	cpu        time.Duration
	minutes    float64
	whole      wholeSizes
}

// residentReport is the recorded form of a residentResult.
type residentReport struct {
	Key          string         `json:"key"`
	Title        string         `json:"title"`
	FilesSampled int            `json:"files_sampled"` // with samples in them
	FilesMapped  int            `json:"files_mapped"`
	Lines        []residentLine `json:"figures"`

	RowsMBLast float64 `json:"rows_mb_at_end"`
	TablesMB   float64 `json:"tables_mb"` // kernel memory used for tables
	BPF        float64 `json:"bpf_us_a_sample"`
	CopyShare  float64 `json:"copies_a_sample"`
	CPU        float64 `json:"cpu_seconds_a_minute"` // of the agent
}

// residentLine is a figure, compared with whole tables: of the files with samples, and of all mapped files.
type residentLine struct {
	Key     string  `json:"key"`
	Title   string  `json:"title"`
	Value   float64 `json:"value"`
	Sampled float64 `json:"whole_sampled"`
	Mapped  float64 `json:"whole_mapped"`
}

func (r residentResult) report(load residentWork) residentReport {
	hit, all := r.whole.sampled, r.whole.mapped
	out := residentReport{
		Key: load.key, Title: load.title, FilesSampled: hit.files, FilesMapped: all.files,
		RowsMBLast: r.last.rowBytes / 1e6, TablesMB: r.most.tableBytes / 1e6, BPF: r.bpf.mean() / 1e3,
		CopyShare: r.last.copies / r.last.delivered, CPU: r.cpu.Seconds() / r.minutes,
	}
	line := func(key, title string, unit, value, sampled, mapped float64) {
		out.Lines = append(out.Lines, residentLine{key, title, value / unit, sampled / unit, mapped / unit})
	}
	line("rows", "unwind rows resident, peak, thousands", 1e3, r.most.rows, float64(hit.rows), float64(all.rows))
	line("row bytes", "MB of the rows", 1e6, r.most.rowBytes, float64(hit.rowBytes), float64(all.rowBytes))
	line("used", "MB with directories and mappings", 1e6, r.most.usedBytes, float64(hit.rowBytes+hit.dirBytes),
		float64(all.rowBytes+all.dirBytes))
	line("allocated", "MB of heap allocated to make rows, garbage included",
		1e6, r.heap.allocated, float64(hit.allocated), float64(all.allocated))
	line("heap", "MB of heap in use for rows and their bookkeeping, peak; whole tables: rows only",
		1e6, r.heap.inUse, float64(hit.rowBytes), float64(all.rowBytes))
	line("agent heap", "MB of the agent's whole heap, peak; whole tables: rows only",
		1e6, r.most.heap, float64(hit.rowBytes), float64(all.rowBytes))
	return out
}

// write prints the table as text.
func (r residentReport) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tHeadwater\twhole tables of the\tratio\twhole tables of the\tratio\t\n", r.Title)
	fmt.Fprintf(w, "\t\t%d files samples hit\t\t%d files mapped\t\t\n", r.FilesSampled, r.FilesMapped)
	for _, l := range r.Lines {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.3f\t%.2f\t%.3f\t\n", l.Title, l.Value, l.Sampled, l.Value/l.Sampled, l.Mapped,
			l.Value/l.Mapped)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out,
		"at the end %.2f MB of rows; %.1f MB of kernel memory taken for tables; BPF %.1f us a sample; "+
			"%.2f %% of samples had copies of stacks; agent's CPU %.2f s/min\n\n",
		r.RowsMBLast, r.TablesMB, r.BPF, 100*r.CopyShare, r.CPU)
	return err
}
