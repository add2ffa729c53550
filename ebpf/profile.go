package ebpf

import "github.com/google/pprof/profile"

// Profile is what one target did between two calls of Session.Collect.
// A target with more samples than Pyroscope takes in one profile gives several.
type Profile struct {
	Labels map[string]string // the target's labels, __name__ and service_name among them
	Pprof  *profile.Profile  // owned by the caller

	Samples   uint64    // samples in this profile
	WithUser  uint64    // samples that should have a user part
	Complete  uint64    // samples whose user part reaches the outermost frame
	Processes []Process // most samples first
}

// Process is one process's share of a Profile.
type Process struct {
	PID      uint32
	Comm     string
	Samples  uint64
	WithUser uint64
	Complete uint64
}

// Stats are counters since the session began and gauges of its present state.
type Stats struct {
	Expected  uint64            // samples due: time that CPUs were busy over the period; to within a few
	Delivered uint64            // samples that were taken and not lost, the ignored ones included
	Idle      uint64            // samples that hit an idle CPU, beside the above; not every idle CPU has any
	Ignored   uint64            // samples that hit a process without a target
	Lost      uint64            // samples taken, but dropped for want of buffer space
	Outcomes  map[string]uint64 // samples by outcome of the user stack, see unwind.Outcome

	Copies      uint64 // samples whose walk missed a table, so that they carried a copy of their stack
	CopiedBytes uint64
	Uncopied    uint64 // samples that should have, but came too fast one after another

	Processes   int    // processes known now
	Executables int    // distinct executables known now
	Pages       int    // pages of unwind rows resident
	Rows        int    // unwind rows in them
	RowBytes    uint64 // memory that the rows take
	UsedBytes   uint64 // memory that rows, directories of pages and mappings take
	TableBytes  uint64 // memory of the unwind tables in the kernel, used or not

	PagesEvicted uint64 // pages of unwind rows given up: not looked up lately, or to make room for others

	KnownSymbols   map[string]uint64 // frames named, by service_name
	UnknownSymbols map[string]uint64 // frames in a known file without a name, by service_name
	UnknownModules map[string]uint64 // frames outside any known file, by service_name

	// Errors that cost names or stacks but stop nothing, such as files that cannot
	// be read, and how often each came; the first few hundred kinds.
	Errors map[string]uint64

	Binaries []BinaryStats  // stacks that ended early, by binary; most first, bounded
	Unnamed  []UnnamedStats // frames without a function's name, by binary; most first, bounded
}

// BinaryStats counts the incomplete stacks that ended in one binary.
type BinaryStats struct {
	File    string
	BuildID string
	Outcome string
	Samples uint64
}

// UnnamedStats counts the frames in one binary that have no function's name.
type UnnamedStats struct {
	File    string
	BuildID string
	Reason  string // symbol.Reason in snake_case, or "outside_any_mapping"
	Frames  uint64

	// Explain returns a sentence that says what is missing, and what to install if
	// that is known. It may read the package manager's lists, some megabytes.
	Explain func() string
}
