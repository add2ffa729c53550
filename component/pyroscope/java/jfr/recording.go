// Package jfr reads recordings of a Java VM's flight recorder: allocations and waiting for locks, as pprof profiles.
//
// Profiles and sample types have the names that Pyroscope's Java agent gives them. The figures are estimates of
// totals, not counts of events, see Read.
package jfr

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"github.com/grafana/jfr-parser/parser"
	"github.com/grafana/jfr-parser/parser/types"
	"github.com/grafana/jfr-parser/parser/types/def"

	"github.com/headwater/headwater/flame/demangle"
)

// Values of the label __name__.
const (
	Memory = "memory" // allocations
	Mutex  = "mutex"  // waiting to enter synchronized blocks
	Block  = "block"  // waiting for locks of java.util.concurrent
)

// Profile is one kind of profile from a recording.
type Profile struct {
	Name  string // Memory, Mutex or Block; Memory occurs twice, for allocations in and outside buffers of threads
	Pprof *profile.Profile
}

// Options of Read.
type Options struct {
	// After is the start of the newest chunk that was read before, in the VM's ticks. Recordings that overlap share a
	// chunk, and Read skips its events the second time.
	After uint64
	// Lock is the shortest time of waiting that counts.
	Lock time.Duration
	// Threads adds the label thread_name to samples.
	Threads bool
}

// Result is the content of a recording.
type Result struct {
	Profiles []Profile // without empty ones
	Last     uint64    // start of the newest chunk, in the VM's ticks; Options.After if there is none
}

// Read reads a recording, which is a sequence of chunks. The error describes an invalid recording.
//
// The bytes of objects outside the threads' buffers (TLABs) are exact. For objects in buffers, the VM reports one
// object for each new buffer. The VM also counts all bytes that a thread allocates: Read subtracts the bytes outside
// buffers, and divides the rest among the thread's new buffers by size. The number of objects is an estimate: bytes
// divided by the size of the reported object. Waiting is exact.
func Read(recording []byte, o Options) (result Result, err error) {
	defer func() { // the parser's answer to invalid input
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid recording: %v", r)
		}
	}()
	r := &reader{
		o:       o,
		inside:  newBuilder(Memory, "alloc_in_new_tlab_objects", "alloc_in_new_tlab_bytes", "bytes", "space", "bytes"),
		outside: newBuilder(Memory, "alloc_outside_tlab_objects", "alloc_outside_tlab_bytes", "bytes", "space", "bytes"),
		mutex:   newBuilder(Mutex, "contentions", "delay", "nanoseconds", "mutex", "count"),
		block:   newBuilder(Block, "contentions", "delay", "nanoseconds", "block", "count"),
	}
	result.Last = o.After
	for len(recording) > 0 {
		h, err := headerOf(recording)
		if err != nil {
			return Result{}, fmt.Errorf("invalid recording: %w", err)
		}
		if err := r.readChunk(recording[:h.size], h); err != nil {
			return Result{}, fmt.Errorf("invalid recording: %w", err)
		}
		result.Last = max(result.Last, h.start)
		recording = recording[h.size:]
	}
	for _, b := range []*builder{r.inside, r.outside, r.mutex, r.block} {
		if len(b.pprof.Sample) > 0 {
			result.Profiles = append(result.Profiles, Profile{b.name, b.pprof})
		}
	}
	return result, nil
}

// header is the part of a chunk's header that Read uses.
type header struct {
	size   uint64 // of the chunk, in bytes
	start  uint64 // in ticks
	second uint64 // ticks
}

// headerSize is the size of a chunk's header in bytes (JDK, JfrChunkHeader). Numbers are in network byte order.
const headerSize = 68

func headerOf(chunk []byte) (h header, err error) {
	if len(chunk) < headerSize || string(chunk[:4]) != "FLR\x00" {
		return h, errors.New("there is no chunk")
	}
	number := func(at int) uint64 { return binary.BigEndian.Uint64(chunk[at:]) }
	h = header{size: number(8), start: number(48), second: max(number(56), 1)}
	if h.size < headerSize || h.size > uint64(len(chunk)) {
		return h, fmt.Errorf("a chunk has %d bytes, and its header says %d", len(chunk), h.size)
	}
	return h, nil
}

// reader is the state of Read, and the parser of the current chunk.
type reader struct {
	*parser.Parser
	o      Options
	second uint64 // ticks
	stacks map[types.StackTraceRef]stack
	counts counts // at the end of the previous chunk

	buffers   []buffer
	elsewhere counts // bytes that threads allocated outside buffers

	inside, outside, mutex, block *builder
}

// buffer is a new buffer of a thread.
type buffer struct {
	thread types.ThreadRef
	stack  stack
	size   uint64 // of the buffer, in bytes
	object uint64 // size of the first object in it, in bytes
}

func (r *reader) readChunk(chunk []byte, h header) error {
	r.Parser = parser.NewParser(chunk, parser.Options{})
	r.second, r.stacks, r.buffers, r.elsewhere = h.second, map[types.StackTraceRef]stack{}, nil, counts{}
	isNew := h.start > r.o.After
	for {
		kind, err := r.ParseEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if isNew {
			r.addEvent(kind)
		}
	}
	bytes, after := allocated(chunk, &r.TypeMap, r.counts)
	r.counts = after
	r.addBuffers(bytes)
	return nil
}

// addEvent adds the event that the parser has just read.
func (r *reader) addEvent(kind def.TypeID) {
	switch kind {
	case r.TypeMap.T_ALLOC_IN_NEW_TLAB:
		e := &r.ObjectAllocationInNewTLAB
		r.buffers = append(r.buffers, buffer{e.EventThread, r.stackOf(e.StackTrace), e.TlabSize, e.AllocationSize})
	case r.TypeMap.T_ALLOC_OUTSIDE_TLAB:
		e := &r.ObjectAllocationOutsideTLAB
		r.elsewhere[e.EventThread] += e.AllocationSize
		r.outside.add(r.stackOf(e.StackTrace), r.threadName(e.EventThread), 1, int64(e.AllocationSize))
	case r.TypeMap.T_MONITOR_ENTER:
		e := &r.JavaMonitorEnter
		r.addWait(r.mutex, e.StackTrace, e.EventThread, e.Duration)
	case r.TypeMap.T_THREAD_PARK:
		if e := &r.ThreadPark; r.isLock(e.ParkedClass) {
			r.addWait(r.block, e.StackTrace, e.EventThread, e.Duration)
		}
	}
}

func (r *reader) addWait(b *builder, s types.StackTraceRef, thread types.ThreadRef, ticks uint64) {
	// Seconds apart, so that the product fits.
	d := time.Duration(ticks/r.second)*time.Second +
		time.Duration(ticks%r.second*uint64(time.Second)/r.second)
	if d >= r.o.Lock {
		b.add(r.stackOf(s), r.threadName(thread), 1, int64(d))
	}
}

// isLock reports whether threads that park for an object of a class wait for a lock, and not for work.
func (r *reader) isLock(ref types.ClassRef) bool {
	class := r.GetClass(ref)
	if class == nil {
		return false
	}
	name := r.GetSymbolString(class.Name)
	rest, ok := strings.CutPrefix(name, "java/util/concurrent/")
	return ok && (strings.HasPrefix(rest, "locks/Reentrant") || strings.HasPrefix(rest, "locks/StampedLock") ||
		strings.HasPrefix(rest, "Semaphore"))
}

func (r *reader) threadName(ref types.ThreadRef) string {
	if !r.o.Threads {
		return ""
	}
	i, ok := r.Parser.Threads.IDMap[ref]
	if !ok {
		return ""
	}
	t := &r.Parser.Threads.Thread[i]
	return cmp.Or(t.JavaName, t.OsName)
}

// stackOf returns a stack of the current chunk.
func (r *reader) stackOf(ref types.StackTraceRef) stack {
	if s, ok := r.stacks[ref]; ok {
		return s
	}
	var s stack
	if trace := r.GetStacktrace(ref); trace != nil {
		for _, f := range trace.Frames {
			s = append(s, frame{r.methodName(f.Method), int64(f.LineNumber)})
		}
		if trace.Truncated {
			s = append(s, frame{name: depthLimit})
		}
	}
	if len(s) == 0 {
		s = stack{{name: noStack}}
	}
	r.stacks[ref] = s
	return s
}

// Frames in place of missing ones.
const (
	depthLimit = "[incomplete: depth_limit]"
	noStack    = "[incomplete: not_recorded]"
	unknown    = "[unknown]"
)

// methodName returns the name of a method in the form of CPU profiles, without addresses and counts.
func (r *reader) methodName(ref types.MethodRef) string {
	method := r.GetMethod(ref)
	if method == nil {
		return unknown
	}
	name := r.GetSymbolString(method.Name)
	if class := r.GetClass(method.Type); class != nil && name != "" {
		return nameOf(r.GetSymbolString(class.Name), name)
	}
	return unknown
}

// nameOf returns the name of a method whose class has a name in a recording, such as "java/util/HashMap" or
// "Shop$$Lambda$14.0x0000000800c03000".
func nameOf(class, method string) string {
	address := "" // of a hidden class, or a hash before Java 15
	if at := strings.LastIndexAny(class, "/."); at >= 0 {
		if last := class[at+1:]; strings.HasPrefix(last, "0x") || last != "" && strings.Trim(last, "0123456789") == "" {
			class, address = class[:at], "/"+last
		}
	}
	class = strings.ReplaceAll(class, "/", ".") + address
	return demangle.None.ApplyToClass(class + "." + method)
}

// addBuffers adds the allocations in the buffers of the chunk. allocated are the bytes that threads have allocated in
// it.
func (r *reader) addBuffers(allocated counts) {
	sizes := counts{} // of the threads' new buffers
	for _, b := range r.buffers {
		sizes[b.thread] += b.size
	}
	share, all := r.shares(allocated, sizes)
	for _, b := range r.buffers {
		used, ok := share[b.thread]
		if !ok {
			used = all
		}
		bytes := used * float64(b.size)
		objects := max(bytes/float64(max(b.object, 1)), 1)
		r.inside.add(b.stack, r.threadName(b.thread), int64(objects+0.5), int64(bytes+0.5))
	}
}

// shares returns which share of its new buffers each thread has filled, and the share of all threads for a thread that
// the VM did not count, because it ended within the chunk.
func (r *reader) shares(allocated, sizes counts) (share map[types.ThreadRef]float64, all float64) {
	share = map[types.ThreadRef]float64{}
	var used, size uint64
	for thread, of := range sizes {
		n, ok := allocated[thread]
		if !ok || of == 0 {
			continue
		}
		n -= min(n, r.elsewhere[thread])
		share[thread] = float64(n) / float64(of)
		used, size = used+n, size+of
	}
	if size == 0 {
		return share, 1
	}
	return share, float64(used) / float64(size)
}
