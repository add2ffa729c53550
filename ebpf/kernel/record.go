package kernel

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// RecordKind is the kind of a side-band record.
type RecordKind uint8

// Kinds of records.
const (
	RecordMap          RecordKind = iota + 1 // a process got an executable mapping
	RecordExec                               // a process started a new program
	RecordComm                               // a process was renamed
	RecordFork                               // a process was born
	RecordExit                               // a process ended
	RecordLost                               // records were lost, after Since: look everything up again
	RecordKernelSymbol                       // the kernel made code, such as of a BPF program, or dropped it
)

// Record is one side-band record.
type Record struct {
	Kind    RecordKind
	Time    uint64 // CLOCK_MONOTONIC, ns
	PID     uint32
	Parent  uint32         // RecordFork: the parent's PID
	Comm    string         // RecordExec, RecordComm
	Mapping procfs.Mapping // RecordMap
	Symbol  KernelSymbol   // RecordKernelSymbol
	Since   uint64         // RecordLost: time of the last record before, 0 if none is known
	Count   uint64         // RecordLost: number of records; 0 if not known yet, because the buffer is full
}

// KernelSymbol is code that the kernel generated at run time.
type KernelSymbol struct {
	Name    string
	Address uint64
	Size    uint32
	BPF     bool // else code of kprobes, ftrace and the like
	Removed bool
}

// parseRecord appends the Record of a perf record, unless it is of no interest, such as the birth, end or name of a
// thread. It does not allocate known texts again.
func parseRecord(out []Record, known texts, kind uint32, misc uint16, b []byte) []Record {
	const trailer = 8 // sample_id: the time
	if len(b) < trailer {
		return out
	}
	body := b[:len(b)-trailer]
	r := Record{Time: binary.NativeEndian.Uint64(b[len(body):])}
	ok := false
	switch kind {
	case unix.PERF_RECORD_MMAP2:
		ok = r.parseMap(known, body)
	case unix.PERF_RECORD_COMM:
		ok = r.parseComm(known, misc, body)
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		ok = r.parseTask(kind, body)
	case unix.PERF_RECORD_KSYMBOL:
		ok = r.parseKernelSymbol(body)
	case unix.PERF_RECORD_LOST:
		if ok = len(body) >= 16; ok { // u64 id, lost
			r.Kind, r.Count = RecordLost, binary.NativeEndian.Uint64(body[8:])
		}
	}
	if !ok {
		return out
	}
	return append(out, r)
}

// parseMap reads: u32 pid, tid; u64 addr, len, pgoff; u32 maj, min; u64 ino,
// ino_generation; u32 prot, flags; char filename[].
func (r *Record) parseMap(known texts, b []byte) bool {
	const fixed = 8 + 24 + 24 + 8
	if len(b) < fixed {
		return false
	}
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	r.Kind, r.PID = RecordMap, u32(b)
	start, length := u64(b[8:]), u64(b[16:])
	r.Mapping = procfs.Mapping{
		Start: start, End: start + length, Offset: u64(b[24:]), Path: known.cString(b[fixed:]),
		Dev: unix.Mkdev(u32(b[32:]), u32(b[36:])), Inode: u64(b[40:]), Generation: u64(b[48:]),
	}
	if u32(b[56:])&unix.PROT_WRITE != 0 {
		r.Mapping.Perms |= procfs.Write
	}
	if u32(b[60:])&unix.MAP_SHARED != 0 {
		r.Mapping.Perms |= procfs.Shared
	}
	return r.Mapping.End >= start && u32(b[56:])&unix.PROT_EXEC != 0
}

// parseComm reads: u32 pid, tid; char comm[].
func (r *Record) parseComm(known texts, misc uint16, b []byte) bool {
	if len(b) < 8 {
		return false
	}
	pid, tid := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:])
	r.Kind, r.PID, r.Comm = RecordComm, pid, known.cString(b[8:])
	if misc&unix.PERF_RECORD_MISC_COMM_EXEC != 0 {
		r.Kind = RecordExec
	}
	return pid == tid
}

// parseTask reads: u32 pid, ppid, tid, ptid; u64 time.
func (r *Record) parseTask(kind uint32, b []byte) bool {
	if len(b) < 24 {
		return false
	}
	u32 := binary.NativeEndian.Uint32
	pid, parent, tid := u32(b), u32(b[4:]), u32(b[8:])
	r.PID, r.Parent = pid, parent
	if kind == unix.PERF_RECORD_FORK {
		r.Kind = RecordFork
		return pid != parent // else a thread
	}
	r.Kind = RecordExit
	return pid == tid
}

// parseKernelSymbol reads: u64 addr; u32 len; u16 type, flags; char name[].
func (r *Record) parseKernelSymbol(b []byte) bool {
	const (
		typeBPF     = 1 // PERF_RECORD_KSYMBOL_TYPE_BPF
		flagRemoved = 1 // PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER
	)
	if len(b) < 16 {
		return false
	}
	order := binary.NativeEndian
	r.Kind = RecordKernelSymbol
	r.Symbol = KernelSymbol{
		Name: cString(b[16:]), Address: order.Uint64(b), Size: order.Uint32(b[8:]),
		BPF: order.Uint16(b[12:]) == typeBPF, Removed: order.Uint16(b[14:])&flagRemoved != 0,
	}
	return r.Symbol.Name != ""
}

func cString(b []byte) string { return texts(nil).cString(b) }

// texts interns names and paths: most new programs repeat those in earlier records. A nil map interns none.
type texts map[string]string

// maxTexts bounds the number of texts: a path has up to 4,096 bytes.
const maxTexts = 256

// cString returns the text before the first zero byte. It does not allocate a known text.
func (t texts) cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	if known, ok := t[string(b)]; ok {
		return known
	}
	text := string(b)
	if len(t) >= maxTexts {
		clear(t)
	}
	if t != nil {
		t[text] = text
	}
	return text
}
