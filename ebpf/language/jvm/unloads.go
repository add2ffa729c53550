package jvm

import (
	"bytes"
	"fmt"

	"github.com/headwater/headwater/ebpf/language"
)

// perfLayout is the layout data needed to find a counter in the VM's performance data (HotSpot, perfMemory.hpp).
type perfLayout struct {
	start uint64 // ELF virtual address of a pointer to the data; 0 if the VM does not describe the data

	used, firstEntry, entries                   member // in the header
	length, name, elements, dataType, dataThere member // in an entry
}

// The performance data takes 64 KiB unless -XX:PerfDataMemorySize says otherwise.
const (
	maxPerfData   = 1 << 20
	perfLong      = 'J'
	unloadsName   = "java.cls.unloadedClasses"
	maxPerfHeader = 64
)

var errNoCounter = fmt.Errorf("a Java VM does not count the classes that it unloads: %w", language.ErrUnknown)

// resolvePerf looks up the fields of the performance data.
func (r *resolver) resolvePerf() perfLayout {
	p := perfLayout{
		used: r.member("PerfDataPrologue::used"), firstEntry: r.member("PerfDataPrologue::entry_offset"),
		entries: r.member("PerfDataPrologue::num_entries"),
		length:  r.member("PerfDataEntry::entry_length"), name: r.member("PerfDataEntry::name_offset"),
		elements: r.member("PerfDataEntry::vector_length"), dataType: r.member("PerfDataEntry::data_type"),
		dataThere: r.member("PerfDataEntry::data_offset"),
	}
	if r.err == nil {
		p.start = r.static("PerfMemory::_start")
	}
	return p
}

// Unloads implements language.FrameReader: the VM counts an unloaded class before it reuses the memory of its methods.
func (i *interpreter) Unloads(process language.Memory, bias uint64) (counter uint64, err error) {
	l := &i.layout.perf
	if l.start == 0 {
		return 0, errNoCounter
	}
	m := memory{r: process}
	start := m.u64(l.start + bias)
	if m.err == nil && start == 0 {
		return 0, fmt.Errorf("performance data of a Java VM: %w", language.ErrNotReady)
	}
	begin := make([]byte, maxPerfHeader)
	m.readBytes(start, begin)
	used := l.used.valueIn(begin)
	if m.err == nil && (used < maxPerfHeader || used > maxPerfData) {
		return 0, fmt.Errorf("%d bytes of performance data: %w", used, errNoCounter)
	}
	data := make([]byte, used) // empty after an error
	m.readBytes(start, data)
	if m.err != nil {
		return 0, m.err
	}
	at := l.firstEntry.valueIn(data)
	for range l.entries.valueIn(data) {
		if at < 0 || at >= used {
			break
		}
		entry := data[at:]
		length := l.length.valueIn(entry)
		if length <= 0 || length > int64(len(entry)) {
			break
		}
		if there, ok := l.counter(entry[:length]); ok {
			return start + uint64(at) + there, nil
		}
		at += length
	}
	return 0, errNoCounter
}

// counter returns the offset of the number in an entry, if the entry is the counter of unloaded classes.
func (l *perfLayout) counter(entry []byte) (there uint64, ok bool) {
	name, data := l.name.valueIn(entry), l.dataThere.valueIn(entry)
	fits := func(at int64, bytes int) bool { return at >= 0 && at <= int64(len(entry)-bytes) }
	if !fits(name, len(unloadsName)+1) || !fits(data, wordSize) || l.dataType.valueIn(entry) != perfLong ||
		l.elements.valueIn(entry) != 0 {
		return 0, false
	}
	return uint64(data), bytes.HasPrefix(entry[name:], []byte(unloadsName+"\x00"))
}
