package profile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/flame/pprof"
)

// Names of labels for Options.Labels.
const (
	LabelPID        = "pid"
	LabelThreadName = "thread_name"
	LabelThreadID   = "thread_id"
	LabelCPU        = "cpu"
	LabelNUMANode   = "numa_node" // of the CPU; absent if unknown
)

// sampleLabel is a label that samples may have.
type sampleLabel struct {
	name string
	// appendValue appends the value of the label of a sample, without a zero byte; nothing if the sample has none.
	appendValue func(value []byte, a *aggregate, s *sampler.Sample) []byte
}

var sampleLabels = []sampleLabel{
	{LabelPID, func(value []byte, _ *aggregate, s *sampler.Sample) []byte {
		return strconv.AppendUint(value, uint64(s.PID), 10)
	}},
	{LabelThreadName, func(value []byte, _ *aggregate, s *sampler.Sample) []byte { return append(value, s.Comm...) }},
	{LabelThreadID, func(value []byte, _ *aggregate, s *sampler.Sample) []byte {
		return strconv.AppendUint(value, uint64(s.TID), 10)
	}},
	{LabelCPU, func(value []byte, _ *aggregate, s *sampler.Sample) []byte {
		return strconv.AppendUint(value, uint64(s.CPU), 10)
	}},
	{LabelNUMANode, func(value []byte, a *aggregate, s *sampler.Sample) []byte {
		if node := a.nodes.Of(s.CPU); node >= 0 {
			return strconv.AppendInt(value, int64(node), 10)
		}
		return value
	}},
}

// LabelNames returns the names of the labels for Options.Labels.
func LabelNames() (names []string) {
	for _, l := range sampleLabels {
		names = append(names, l.name)
	}
	return names
}

// CheckLabels returns an error if a name is not the name of a label.
func CheckLabels(names []string) error {
	for _, name := range names {
		if !slices.Contains(LabelNames(), name) {
			return fmt.Errorf("there is no label %q; the labels are %s", name, strings.Join(LabelNames(), ", "))
		}
	}
	return nil
}

// chosenLabels returns the labels with the given names, in the order of the table.
func chosenLabels(names []string) (chosen []sampleLabel) {
	for _, l := range sampleLabels {
		if slices.Contains(names, l.name) {
			chosen = append(chosen, l)
		}
	}
	return chosen
}

// appendLabels appends the values of the labels of a sample, each with a zero byte after it.
func (a *aggregate) appendLabels(values []byte, s *sampler.Sample) []byte {
	for i := range a.labels {
		values = append(a.labels[i].appendValue(values, a, s), 0)
	}
	return values
}

// labelsOf returns the labels of a stack.
func (a *aggregate) labelsOf(s *stack) (out []pprof.Label) {
	if a.options.Comm.inLabels() {
		out = append(out, pprof.Label{Key: "comm", Text: s.comm})
	}
	rest := s.labels
	for i := range a.labels {
		var value string
		if value, rest, _ = strings.Cut(rest, "\x00"); value != "" {
			out = append(out, pprof.Label{Key: a.labels[i].name, Text: value})
		}
	}
	return out
}
