// Package server is the web page of a profiler: the profiles of the last minutes, kept in bounded memory, and
// optionally older profiles on disk; an overview, flame graphs, and files for other tools.
//
// The page uses only relative links, so it works below any prefix. It loads no resources from other sites, opens no
// files except its history, and starts no process.
//
// The package does not depend on profilers, River or components.
package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/server/archive"
	"github.com/headwater/headwater/flame/tree"
)

// Profile is the profile of one target in one round of collecting. It must not be modified after it is passed to
// Page.Add.
type Profile struct {
	Labels map[string]string `json:"labels"` // the target's labels
	Data   []byte            `json:"-"`      // the pprof profile, gzip-compressed

	// Pprof is the decoded Data. Callers set it if they have it, which saves decoding. It is not kept.
	Pprof *profile.Profile `json:"-"`

	// Kind is the name of a kind of package flame/kind; "" means cpu.
	Kind   string `json:"kind,omitempty"`
	Unit   string `json:"unit,omitempty"`   // of the values of its samples; "" means nanoseconds
	Period int64  `json:"period,omitempty"` // value of one sample, in Unit; 0 if not known

	Samples   uint64    `json:"samples"`  // samples in the profile
	WithUser  uint64    `json:"user"`     // samples that should have a user part
	Complete  uint64    `json:"complete"` // samples whose user part is complete
	Processes []Process `json:"processes"`
}

// Process is one process's share of a Profile.
type Process struct {
	PID      uint32 `json:"pid"`
	Comm     string `json:"comm"`
	Program  string `json:"program,omitempty"` // path of its executable, as the process sees it; "" if unknown
	Build    string `json:"build,omitempty"`   // distinguishes its builds, usually the build ID; "" if unknown
	Samples  uint64 `json:"samples"`
	WithUser uint64 `json:"user"`
	Complete uint64 `json:"complete"`
	Value    uint64 `json:"value,omitempty"` // of its samples, in Unit; 0 if unknown
}

// kept is a Profile in the history.
type kept struct {
	Profile
	target target
	start  int64 // of the round, in ms since 1970
	end    int64

	folded atomic.Pointer[tree.Folded] // the folded data; nil if the data must be read

	stored *archive.Stored[Profile] // where its data is on disk; nil: in memory
	joined int                      // number of further profiles, of other rounds, that are added to this one
}

// profileData returns the pprof profile, gzip-compressed. For a profile on disk the error may be archive.ErrGone.
func (k *kept) profileData() ([]byte, error) {
	if k.stored != nil {
		return k.stored.Data()
	}
	return k.Data, nil
}

// dataSize returns the number of bytes of data.
func (k *kept) dataSize() int {
	if k.stored != nil {
		return int(k.stored.Size)
	}
	return len(k.Data)
}

// sampleUnit returns the unit of values.
func (k *kept) sampleUnit() string { return cmp.Or(k.Unit, unitTime) }

// unitTime is the unit of times.
const unitTime = "nanoseconds"

// kindName returns the name of the profile's kind.
func (k *kept) kindName() string { return filter{kind: k.Kind}.kindName() }

// size returns the approximate memory use of k in bytes, without the folded data.
func (k *kept) size() int64 {
	const perEntry, perProcess = 256, 96
	n := int64(perEntry + len(k.Data))
	for _, p := range k.Processes {
		n += perProcess + int64(len(p.Comm)+len(p.Program)+len(p.Build))
	}
	for name, value := range k.Labels {
		n += int64(len(name) + len(value))
	}
	return n
}

// foldedSize returns the approximate memory use of the folded data of k, in bytes.
func (k *kept) foldedSize() int64 {
	if f := k.folded.Load(); f != nil {
		return f.Size()
	}
	return 0
}

// countsOf returns the numbers of samples of the selected processes.
func (k *kept) countsOf(s selection) (samples, withUser, complete uint64) {
	switch {
	case s.build != "":
		return k.samplesOf(build{s.exe, s.build})
	case s.comm == "" && s.pid == 0:
		return k.Samples, k.WithUser, k.Complete
	}
	for _, p := range k.Processes {
		if (s.comm == "" || s.comm == p.Comm) && (s.pid == 0 || s.pid == p.PID) {
			samples += p.Samples
			withUser += p.WithUser
			complete += p.Complete
		}
	}
	return samples, withUser, complete
}

// target is a distinct set of labels.
type target struct {
	id     string // short hash of the labels, fit for a URL
	name   string // service_name, for users
	labels string // all labels in River's notation, sorted

	service string // URL parameter for all targets with the same name
}

func newTarget(labels map[string]string) target {
	var text strings.Builder
	text.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(name + "=\"" + labels[name] + "\"")
	}
	text.WriteByte('}')

	sum := sha256.Sum256([]byte(text.String()))
	t := target{id: hex.EncodeToString(sum[:6]), name: labels["service_name"], labels: text.String()}
	if t.name == "" {
		t.name = t.labels
	}
	t.service = serviceID(t.name)
	return t
}

// serviceID returns the URL parameter for all targets with a name.
func serviceID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "s" + hex.EncodeToString(sum[:6])
}

// history holds the newest profiles within an age and a number of bytes. It is safe for concurrent use.
type history struct {
	maxAge   time.Duration
	maxBytes int64
	show     func(name string) string // returns a function's name in flame graphs

	mu      sync.Mutex
	entries []*kept // by end, oldest first
	bytes   int64
	added   chan struct{} // closed by the next add; nil if no caller waits
}

// nextRound returns a channel that is closed when the next round is added.
func (h *history) nextRound() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.added == nil {
		h.added = make(chan struct{})
	}
	return h.added
}

// addRound appends the profiles of the round from start to end, then removes the oldest profiles beyond the limits. It
// returns the appended profiles.
func (h *history) addRound(start, end time.Time, profiles []Profile) (added []*kept) {
	for _, p := range profiles {
		k := &kept{Profile: p, target: newTarget(p.Labels), start: start.UnixMilli(), end: end.UnixMilli()}
		if k.Pprof != nil {
			if f, err := tree.Fold(k.Pprof, h.show); err == nil { // otherwise the error appears when it is read
				k.folded.Store(f)
			}
			k.Pprof = nil
		}
		added = append(added, k)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range added {
		h.bytes += k.size() + k.foldedSize()
	}
	h.entries = append(h.entries, added...)
	h.forget(end.Add(-h.maxAge).UnixMilli())
	if h.added != nil {
		close(h.added)
		h.added = nil
	}
	return added
}

// forget removes profiles that ended before a time, and the oldest profiles beyond the memory limit. It drops folded
// data first, because that can be made again.
func (h *history) forget(before int64) {
	n := 0
	for n < len(h.entries) && h.entries[n].end < before {
		h.dropProfile(h.entries[n])
		n++
	}
	for i := n; i < len(h.entries) && h.bytes > h.maxBytes; i++ {
		h.unfold(h.entries[i])
	}
	for n < len(h.entries) && h.bytes > h.maxBytes {
		h.dropProfile(h.entries[n])
		n++
	}
	// Copying frees the memory; reslicing would not.
	h.entries = slices.Clone(h.entries[n:])
}

func (h *history) dropProfile(k *kept) {
	h.unfold(k)
	h.bytes -= k.size()
}

func (h *history) unfold(k *kept) {
	h.bytes -= k.foldedSize()
	k.folded.Store(nil)
}

// setMaxBytes changes the memory limit, and removes the oldest profiles beyond it.
func (h *history) setMaxBytes(bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.maxBytes = bytes
	h.forget(math.MinInt64)
}

// limit returns the memory limit in bytes.
func (h *history) limit() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.maxBytes
}

// allProfiles returns every profile, oldest first. The caller owns the slice.
func (h *history) allProfiles() []*kept {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.entries)
}

// size returns the number of bytes in use.
func (h *history) size() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}
