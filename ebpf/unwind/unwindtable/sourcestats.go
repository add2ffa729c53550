package unwindtable

import (
	"slices"

	"github.com/headwater/headwater/ebpf/unwind"
)

// The sources of rules in Stats, in order of precedence.
const (
	SourceEHFrame    = "eh_frame"
	SourceDebugFrame = "debug_frame"
	SourceGo         = "go_functions"
	SourceKnownCode  = "known_code"     // system calls that return elsewhere, code without a caller
	SourceCode       = "code_analysis"  // see package stackheight
	SourceNone       = "frame_pointers" // there is no rule
)

// SourceStats is how much of the text a source has the rules of.
type SourceStats struct {
	Source  string `json:"source"`
	Entries int    `json:"entries"` // FDEs or Go functions; 0 for code
	Bytes   uint64 `json:"bytes"`   // also of rules that cannot be executed
}

// sourceBytes are the bytes of a page with a rule, by source.
type sourceBytes struct{ first, second, known int }

// countSources counts the rows of both sources. It must be called before any others are added.
func (b *builder) countSources(first, second []unwind.Row) {
	if b.counts == nil {
		return
	}
	b.counts.first = ruledBytes(first, b.size)
	b.counts.second = ruledBytes(fillGaps(nil, first, second, b.size), b.size) - b.counts.first
}

// countKnown counts the rows that were added to those of both sources.
func (b *builder) countKnown(rows []unwind.Row) {
	if b.counts != nil {
		b.counts.known = ruledBytes(rows, b.size) - b.counts.first - b.counts.second
	}
}

// ruledBytes returns the bytes of a page of size bytes that have a rule.
func ruledBytes(rows []unwind.Row, size int) (bytes int) {
	for i, r := range rows {
		end := size
		if i+1 < len(rows) {
			end = int(rows[i+1].Off)
		}
		if r.CFA != unwind.CFANone {
			bytes += end - int(r.Off)
		}
	}
	return bytes
}

// bySource returns the sources of a table with the given bytes. It leaves out sources that the file has not.
func (t *Table) bySource(sum sourceBytes, analysis, gaps uint64) []SourceStats {
	second := SourceStats{SourceDebugFrame, t.scanDebug().Len(), uint64(sum.second)}
	if t.sections.Functions != nil && t.golang != nil {
		second = SourceStats{SourceGo, t.sections.Functions.Len(), uint64(sum.second)}
	}
	ehFrame := SourceStats{Source: SourceEHFrame, Bytes: uint64(sum.first)}
	switch {
	case t.searchable:
		ehFrame.Entries = t.header().Len()
	case t.sections.EHFrame != nil:
		ehFrame.Entries = t.scanEH().Len()
	}
	all := []SourceStats{
		ehFrame, second, {Source: SourceKnownCode, Bytes: uint64(sum.known)}, {Source: SourceCode, Bytes: analysis},
		{Source: SourceNone, Bytes: gaps},
	}
	return slices.DeleteFunc(all, func(s SourceStats) bool { return s.Entries == 0 && s.Bytes == 0 })
}
