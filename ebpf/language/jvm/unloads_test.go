package jvm

import (
	"errors"
	"testing"

	"github.com/headwater/headwater/ebpf/language"
)

// count gives the VM performance data with some counters, and returns the address of each number.
func (f *fakeVM) count(names ...string) (numbers []uint64) {
	const bytes = 64
	start := f.place(make([]byte, bytes*(1+len(names)))...)
	f.put32(start+4, uint64(bytes*(1+len(names))))
	f.put32(start+8, bytes)
	f.put32(start+12, uint64(len(names)))
	for n, name := range names {
		at := start + bytes*uint64(1+n)
		f.at(at)[0] = 'J'
		f.put32(at+4, bytes)
		f.put32(at+8, 20)
		f.put32(at+16, 56)
		copy(f.at(at+20), name)
		numbers = append(numbers, at+56)
	}
	f.put64(f.perf, start)
	return numbers
}

// TestUnloads finds the number of classes that the VM has unloaded, by its name.
func TestUnloads(t *testing.T) {
	f := newFakeVM(t)
	i := newInterpreter(f.layout, language.Range{})
	if _, err := i.Unloads(f, fakeBias); !errors.Is(err, language.ErrNotReady) {
		t.Errorf("before there are counters: %v", err)
	}
	numbers := f.count("sun.cls.unloadedBytes", "java.cls.unloadedClasses", "java.cls.unloadedClassesToo")
	if at, err := i.Unloads(f, fakeBias); err != nil || at != numbers[1] {
		t.Errorf("at %#x, want %#x: %v", at, numbers[1], err)
	}
	for name, spoil := range map[string]func(entry uint64){
		"of another type":     func(entry uint64) { f.at(entry)[0] = 'B' },
		"an array":            func(entry uint64) { f.put32(entry+12, 8) },
		"longer than all":     func(entry uint64) { f.put32(entry+4, 1<<30) },
		"without a length":    func(entry uint64) { f.put32(entry+4, 0) },
		"its name elsewhere":  func(entry uint64) { f.put32(entry+8, 60) },
		"its number far away": func(entry uint64) { f.put32(entry+16, 1<<31) },
		"too much of it all":  func(entry uint64) { f.put32(entry-64+4, 1<<30) },
		"one that is not one": func(entry uint64) { f.put32(entry-64+8, 1<<31) },
	} {
		spoil(f.count("java.cls.unloadedClasses")[0] - 56)
		if at, err := i.Unloads(f, fakeBias); !errors.Is(err, language.ErrUnknown) {
			t.Errorf("%s: at %#x, %v", name, at, err)
		}
	}
}

// FuzzUnloads: the number is inside the data, for any data.
func FuzzUnloads(f *testing.F) {
	f.Add([]byte{68, 4, 84, 12}, uint64(0))
	f.Fuzz(func(t *testing.T, changes []byte, seed uint64) {
		vm := newFakeVM(t)
		numbers := vm.count("sun.cls.unloadedBytes", "java.cls.unloadedClasses")
		start, end := numbers[0]-56-64, numbers[1]+8
		for ; len(changes) >= 2; changes = changes[2:] {
			vm.at(start + (seed+uint64(changes[0]))%(end-start))[0] = changes[1]
		}
		at, err := newInterpreter(vm.layout, language.Range{}).Unloads(vm, fakeBias)
		if err == nil && (at < start || at >= start+maxPerfData) {
			t.Fatalf("at %#x, but the data begin at %#x", at, start)
		}
	})
}
