// Package summary describes the results of a recording.
package summary

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headwater/headwater/cli/internal/outfile"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/ebpf/source/probe"
	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/printable"
)

// Limits of a summary's lists.
const (
	shownFunctions = 10
	shownUnnamed   = 3
	maxName        = 100 // characters of a function's name
)

// Summary describes a recording.
type Summary struct {
	Recording *record.Recording // with a profile
	Format    export.Format
	Rate      int    // samples per second and CPU; 0: one at each Period of the profile
	File      string // "" if it was written to standard output
	Size      int64  // of the file, in bytes
	Service   string // Pyroscope service that it was pushed as; "" if it was not
	Verbose   bool   // also report the causes of missing names and stacks
}

// Progress returns the line that shows the progress of a recording.
func Progress(passed time.Duration, p record.Progress) string {
	if p.Naming {
		return samples(p.Samples) + "  reading names"
	}
	return fmt.Sprintf("%d s  %s  %s whole  %s lost  Ctrl-C ends", int(passed.Seconds()), samples(p.Samples),
		share(p.Whole, p.WithUser), count(p.Lost))
}

// WriteText writes a summary as text.
func (s *Summary) WriteText(w io.Writer) error {
	functions, total, err := export.Functions(s.Recording.Profile)
	if err != nil {
		return err
	}
	var b strings.Builder
	r := s.Recording
	ended := ""
	if r.Ended != "" {
		ended = ", until " + r.Ended
	}
	fmt.Fprintf(&b, "%s in %.1f s%s%s\n", samples(r.Samples), r.Duration.Seconds(), s.often(total), ended)
	fmt.Fprintf(&b, "%8s %8s  function\n", "self", "total")
	for _, f := range shown(functions) {
		fmt.Fprintf(&b, "%8s %8s  %s\n", percent(float64(f.Self)/float64(total)), percent(float64(f.Total)/float64(total)),
			described(f))
	}
	s.writeWaits(&b, total)
	fmt.Fprintf(&b, "%s, %s lost, %s of frames have no name\n",
		wholeStacks(r.Whole, r.WithUser), samplesWere(r.LostSamples()), share(unnamedFrames(r), r.Frames))
	if text := Flood(r); text != "" {
		fmt.Fprintln(&b, text)
	}
	if text := LeftOut(r.LeftOut); text != "" {
		fmt.Fprintln(&b, text)
	}
	for _, paused := range r.Paused {
		fmt.Fprintf(&b, "recording of memory paused: %s, more than --heap-limit allows\n", paused)
	}
	if text := Dropped(r.Dropped); text != "" {
		fmt.Fprintln(&b, text)
	}
	s.writeUnnamed(&b)
	if s.Verbose {
		s.writeErrors(&b)
	}
	if s.File != "" {
		fmt.Fprintf(&b, "%s (%s): %s\n", s.File, formatSize(s.Size), s.nextStep())
	}
	if s.Service != "" {
		fmt.Fprintf(&b, "pushed to Pyroscope as service %q\n", s.Service)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// readable is how many samples of a probe a second have room in the buffers.
const readable = 1000

// Flood says which period avoids lost samples of a probe, or why they were lost otherwise; "" if none was lost.
func Flood(r *record.Recording) string {
	lost := r.LostSamples()
	if r.Kind < kind.Count || lost == 0 {
		return ""
	}
	hits := float64(r.Samples + lost)
	if r.Profile != nil {
		hits *= float64(r.Profile.Period)
	}
	rate := hits / max(r.Duration.Seconds(), 0.001)
	if rate < readable {
		return "the buffers were full for a moment: other processes reached the probe as well, or these did in a burst"
	}
	period := prime(int(min(rate/readable, probe.MaxPeriod/2)))
	return fmt.Sprintf("there were more hits than can be read: -c %d takes one hit of %d, which stands for all",
		period, period)
}

// prime returns the smallest prime number above n: callers that alternate in a pattern are then all sampled.
func prime(n int) int {
	for n = max(n, 1) + 1; ; n++ {
		divisor := 2
		for divisor*divisor <= n && n%divisor != 0 {
			divisor++
		}
		if divisor*divisor > n {
			return n
		}
	}
}

// maxLeftOut is the maximum number of left-out processes that are listed.
const maxLeftOut = 4

// Dropped reports the number of dropped values of a probe, "" if there are none.
func Dropped(values uint64) string {
	switch values {
	case 0:
		return ""
	case 1:
		return "1 value was too large, and was ignored: for an int, write value=arg2:int or value=ret:int"
	}
	return count(values) + " values were too large, and were ignored: for an int, write value=arg2:int or value=ret:int"
}

// LeftOut lists the child processes that were left out because they had started before, "" if there are none.
func LeftOut(all []record.Process) string {
	if len(all) == 0 {
		return ""
	}
	var names []string
	for _, p := range all[:min(len(all), maxLeftOut)] {
		names = append(names, fmt.Sprintf("%d (%s)", p.PID, printable.Text(p.Name)))
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return "not recorded: child processes that already ran: " + strings.Join(names, ", ") + "; add --children"
}

// often describes the sampling rate, or for events the number of events per sample.
func (s *Summary) often(total int64) string {
	if s.Rate > 0 {
		return fmt.Sprintf(" at %d Hz", s.Rate)
	}
	p, of := s.Recording.Profile, ""
	if of = p.PeriodType.Type; s.Recording.Kind >= kind.Count {
		of = "hits" // of a probe, independent of its value
	}
	if s.Recording.Kind == kind.Heap {
		return fmt.Sprintf(", one for each %s, %s in use", formatSize(p.Period), formatSize(total))
	}
	text := fmt.Sprintf(", one for each %d %s", p.Period, of)
	if p.Period == 1 {
		text = ", one for each " + strings.TrimSuffix(of, "s")
	}
	switch s.unitName() {
	case "bytes":
		text += ", " + formatSize(total) + " in all"
	case "nanoseconds":
		text += fmt.Sprintf(", %.3f s in all", time.Duration(total).Seconds())
	}
	return text
}

// unitName returns the unit of the functions' values.
func (s *Summary) unitName() string {
	types := s.Recording.Profile.SampleType
	return types[len(types)-1].Unit
}

// shown returns the functions to list in a summary.
func shown(functions []export.Function) []export.Function {
	n := 0
	for n < min(len(functions), shownFunctions) && functions[n].Self > 0 {
		n++
	}
	return functions[:n]
}

// described returns a function's name and binary.
func described(f export.Function) string {
	name := f.Name
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName-1]) + "…"
	}
	if where := f.Where(); where != "" && !strings.HasPrefix(f.Name, where+"+") {
		name += "  " + where
	}
	return name
}

func unnamedFrames(r *record.Recording) (sum uint64) {
	for _, u := range r.Unnamed {
		sum += u.Frames
	}
	return sum
}

// writeUnnamed lists the binaries that lack names, and how to fix that.
func (s *Summary) writeUnnamed(b *strings.Builder) {
	const small = 0.001 // of all frames
	for i, u := range s.Recording.Unnamed {
		part := float64(u.Frames) / float64(max(s.Recording.Frames, 1))
		if part < small || i == shownUnnamed && !s.Verbose {
			break
		}
		fmt.Fprintf(b, "  no names in %s (%s): %s\n", path.Base(u.File), percent(part), Explain(u))
	}
}

// Explain returns why a binary lacks names.
func Explain(u profile.UnnamedStats) string {
	if u.Explain != nil {
		if why := u.Explain(); why != "" {
			return why
		}
	}
	if u.Reason != "" {
		return strings.ReplaceAll(u.Reason, "_", " ")
	}
	return "unknown reason"
}

// writeErrors lists the causes of missing samples, stacks and names.
func (s *Summary) writeErrors(b *strings.Builder) {
	for _, reason := range slices.Sorted(maps.Keys(s.Recording.Lost)) {
		if n := s.Recording.Lost[reason]; n > 0 {
			fmt.Fprintf(b, "  lost, %s: %s\n", reason, count(n))
		}
	}
	for _, text := range slices.Sorted(maps.Keys(s.Recording.Errors)) {
		fmt.Fprintf(b, "  %s (%s times)\n", text, count(s.Recording.Errors[text]))
	}
}

// nextStep says how to view the file.
func (s *Summary) nextStep() string {
	switch s.Format.Name {
	case "pprof":
		return "headwater serve " + s.File + ", headwater report " + s.File + ", or go tool pprof -http=: " + s.File
	case "html", "svg":
		return "open it in a browser"
	default:
		return s.Format.About
	}
}

// WriteJSON writes a summary as JSON.
func (s *Summary) WriteJSON(w io.Writer) error {
	functions, total, err := export.Functions(s.Recording.Profile)
	if err != nil {
		return err
	}
	r := s.Recording
	out := summaryJSON{
		File: s.File, Service: s.Service, Format: s.Format.Name,
		Event: r.Kind.String(), Begun: r.Begun, Seconds: r.Duration.Seconds(), Rate: s.Rate,
		Period: r.Profile.Period, Ended: r.Ended,
		Samples: r.Samples, Whole: r.Whole, WithUser: r.WithUser, Lost: r.Lost, Frames: r.Frames,
		Unnamed: []unnamedJSON{}, Errors: r.Errors,
		Unit: s.unitName(), Total: total, Functions: shown(functions), Waits: waits(r.Profile),
		LeftOut: r.LeftOut, Dropped: r.Dropped,
	}
	for _, u := range r.Unnamed {
		out.Unnamed = append(out.Unnamed, unnamedJSON{u.File, u.BuildID, u.Reason, Explain(u), u.Frames})
	}
	return outfile.WriteJSON(w, out)
}

type summaryJSON struct {
	File      string            `json:"file,omitempty"`
	Service   string            `json:"service,omitempty"` // service that it was pushed as
	Format    string            `json:"format"`
	Event     string            `json:"event"`
	Begun     time.Time         `json:"begun"`
	Seconds   float64           `json:"seconds"`
	Rate      int               `json:"rate,omitempty"` // samples per second and CPU
	Period    int64             `json:"period"`         // value of a sample: ns of CPU time, or number of page faults
	Ended     string            `json:"ended,omitempty"`
	Samples   uint64            `json:"samples"`
	WithUser  uint64            `json:"with_user"`
	Whole     uint64            `json:"whole"`
	Lost      map[string]uint64 `json:"lost"`
	Frames    uint64            `json:"frames"`
	Unnamed   []unnamedJSON     `json:"unnamed"`
	Errors    map[string]uint64 `json:"errors"`
	Unit      string            `json:"unit"` // of the functions' values
	Total     int64             `json:"total"`
	Functions []export.Function `json:"functions"`
	Waits     []Wait            `json:"waits,omitempty"`    // off-CPU time, most first
	LeftOut   []record.Process  `json:"left_out,omitempty"` // children that had started before the recording

	Dropped uint64 `json:"dropped_values,omitempty"` // values of a probe that add nothing, as they are too large
}

type unnamedJSON struct {
	File    string `json:"file"`
	BuildID string `json:"build_id,omitempty"`
	Reason  string `json:"reason"`
	Explain string `json:"explain"`
	Frames  uint64 `json:"frames"`
}

// count formats 1234567 as 1,234,567.
func count(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// samples formats a number of samples.
func samples(n uint64) string {
	if n == 1 {
		return "1 sample"
	}
	return count(n) + " samples"
}

func samplesWere(n uint64) string {
	if n == 1 {
		return "1 sample was"
	}
	return samples(n) + " were"
}

// wholeStacks formats the share of complete user stacks among the samples that should have one.
func wholeStacks(whole, withUser uint64) string {
	if withUser == 0 {
		return "no sample has a user stack"
	}
	return share(whole, withUser) + " of stacks are whole"
}

// share formats a part in percent, "-" if whole is 0.
func share(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return percent(float64(part) / float64(whole))
}

// percent rounds down near the end: it returns 100 % only for a share of 1.
func percent(share float64) string {
	p := share * 100
	if p < 100 && p > 99.9 {
		p = 99.9
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + " %"
}

func formatSize(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
