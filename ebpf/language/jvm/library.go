package jvm

import (
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"sync/atomic"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// Language detects HotSpot VMs. It implements language.Language.
type Language struct{ remembered *Remembered }

// New returns the language.
func New() Language { return Language{&Remembered{}} }

// Name is the name of the language.
const Name = "java"

// Name implements language.Language.
func (Language) Name() string { return Name }

// Detect implements language.Language. The name is a hint only: Attach checks the library's description.
func (j Language) Detect(name string, file *elffile.File) language.Library {
	if path.Base(name) != "libjvm.so" {
		return nil
	}
	symbols, err := symbolsOf(file)
	return &library{symbols: symbols, err: err, remembered: j.remembered}
}

// symbolsOf returns the symbols of a VM's description.
func symbolsOf(file *elffile.File) (map[string]uint64, error) {
	symbols, err := file.Objects(symbolPrefix)
	if err != nil && !errors.Is(err, elffile.ErrNoSection) {
		return nil, err
	}
	if len(symbols) == 0 || file.Machine() != elf.EM_X86_64 {
		return nil, ErrNotHotSpot
	}
	return symbols, nil
}

// library is a libjvm.
type library struct {
	symbols    map[string]uint64
	err        error // the reason why there are no symbols
	layout     atomic.Pointer[Layout]
	remembered *Remembered // shared by all VMs
}

// Attach implements language.Library.
func (l *library) Attach(p language.Process) (language.Code, error) {
	vm, err := l.openVM(p)
	if err != nil {
		return nil, fmt.Errorf("Java VM: %w", err)
	}
	return newCodeCache(vm, l.remembered), nil
}

func (l *library) openVM(p language.Process) (*VM, error) {
	if l.err != nil {
		return nil, l.err
	}
	layout := l.layout.Load()
	if layout == nil {
		var err error
		if layout, err = readLayout(l.symbols, p.Bias, p.Memory); err != nil {
			return nil, err
		}
		l.layout.Store(layout)
	}
	return Open(layout, p.Bias, p.Memory)
}
