package probe

import (
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/codeflow"
	"github.com/headwater/headwater/flame/demangle"
)

const (
	// maxPlaces is the most places of one probe.
	maxPlaces = 256
	// typeIndirect is the type of functions whose implementation a resolver chooses at the start of a program:
	// STT_GNU_IFUNC.
	typeIndirect = elf.SymType(10)
)

// functions returns the functions of the file that the probe names: all with that name, in the default version, and all
// implementations of a function that has several.
func (p *Probe) functions(f *elf.File, c *code) (found []elf.Symbol, err error) {
	for _, table := range []func() ([]elf.Symbol, error){f.DynamicSymbols, f.Symbols} {
		symbols, err := table()
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return nil, fmt.Errorf("read the symbols of %s: %w", p.Path, err)
		}
		if found = p.named(symbols); len(found) > 0 {
			break
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no function %q: see nm -D %s, or name a file that has symbols",
			p.Path, p.Symbol, p.Path)
	}
	if len(found) > maxPlaces {
		return nil, fmt.Errorf("%q matches %d functions of %s, more than %d: use a narrower pattern",
			p.Symbol, len(found), p.Path, maxPlaces)
	}
	var functions []elf.Symbol
	for _, function := range found {
		if elf.ST_TYPE(function.Info) != typeIndirect {
			functions = append(functions, function)
			continue
		}
		chosen, err := c.implementations(function)
		if err != nil {
			return nil, fmt.Errorf("%s in %s is chosen when a program starts: %w", function.Name, p.Path, err)
		}
		functions = append(functions, chosen...)
	}
	return functions, nil
}

// named returns the symbols of functions that the probe names, each address once.
func (p *Probe) named(symbols []elf.Symbol) (found []elf.Symbol) {
	matches := p.matcher()
	var old []elf.Symbol // of versions that programs linked today do not call
	for _, s := range symbols {
		kind := elf.ST_TYPE(s.Info)
		if kind != elf.STT_FUNC && kind != typeIndirect || s.Section == elf.SHN_UNDEF || s.Value == 0 {
			continue
		}
		name, version, _ := strings.Cut(s.Name, "@") // in .symtab a part of the name
		if !matches(name) {
			continue
		}
		isOld := s.HasVersion && s.VersionIndex.IsHidden() || version != "" && !strings.HasPrefix(version, "@")
		s.Name = name
		switch {
		case isOld:
			old = append(old, s)
		case !slices.ContainsFunc(found, func(o elf.Symbol) bool { return o.Value == s.Value }):
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return old
	}
	return found
}

// matcher returns a function that reports whether the probe names a symbol: by the symbol itself, by its name in the
// source, such as ns::Class::f, or by a pattern of either with * or ?.
func (p *Probe) matcher() func(name string) bool {
	isPattern := strings.ContainsAny(p.Symbol, "*?")
	isSource := strings.Contains(p.Symbol, "::")
	same := func(name string) bool {
		if !isPattern {
			return name == p.Symbol
		}
		ok, err := path.Match(strings.ReplaceAll(p.Symbol, "/", "|"), strings.ReplaceAll(name, "/", "|"))
		return ok && err == nil
	}
	return func(name string) bool {
		if same(name) {
			return true
		}
		if !isSource && !isPattern || !strings.HasPrefix(name, "_") {
			return false
		}
		return same(demangle.Simplified.Apply(name))
	}
}

// code is the code of a probe's file, which is read when a function is followed.
type code struct {
	path   string
	file   *elffile.File // nil if not opened yet
	finder *codeflow.Finder
}

// follow follows the code of a function.
func (c *code) follow(function elf.Symbol) (flow *codeflow.Function, err error) {
	if c.file == nil {
		if c.file, err = elffile.Open(c.path); err != nil {
			return nil, err
		}
	}
	if c.finder == nil {
		if c.finder, err = codeflow.NewFinder(c.file); err != nil {
			return nil, err
		}
	}
	return c.finder.Function(function.Value, function.Size)
}

func (c *code) close() {
	if c.file != nil {
		c.file.Close()
	}
}

// checkInstruction returns an error unless an instruction of the function starts at the probe's offset.
func (p *Probe) checkInstruction(c *code, function elf.Symbol) error {
	flow, err := c.follow(function)
	if err != nil {
		return err
	}
	if _, ok := flow.At(function.Value + p.Offset); ok {
		return nil
	}
	var before uint64
	for _, in := range flow.Instructions {
		if in.Addr > function.Value+p.Offset {
			break
		}
		before = in.Addr - function.Value
	}
	return fmt.Errorf("no instruction is known to start at +%d, so a probe would change the program's results; an "+
		"instruction starts at +%d: see objdump -d %s", p.Offset, before, p.Path)
}

// exits returns the addresses of the instructions by which a function returns to its caller, or jumps to another
// function that returns in its place.
func (p *Probe) exits(c *code, function elf.Symbol) (addresses []uint64, err error) {
	const otherwise = "unsafe-uretprobe lets the kernel replace the return address, which aborts Go programs and " +
		"programs that throw through the function"
	if addresses, err = p.certainExits(c, function); err != nil {
		return nil, fmt.Errorf("its returns are uncertain: %w (%s)", err, otherwise)
	}
	return addresses, nil
}

func (p *Probe) certainExits(c *code, function elf.Symbol) (addresses []uint64, err error) {
	flow, err := c.follow(function)
	if err != nil {
		return nil, err
	}
	if flow.Unfollowed != 0 {
		return nil, fmt.Errorf("the jump at +%d has a computed target",
			flow.Unfollowed-function.Value)
	}
	for _, exit := range flow.Exits() {
		switch {
		case exit.Conditional:
			return nil, fmt.Errorf("a conditional jump at +%d leaves it for another function", exit.Addr-function.Value)
		case exit.Kind != codeflow.Return && p.Value == Returned:
			return nil, fmt.Errorf("at +%d it jumps to another function, which returns to its caller: probe that function",
				exit.Addr-function.Value)
		}
		addresses = append(addresses, exit.Addr)
	}
	if len(addresses) == 0 {
		return nil, errors.New("it never returns")
	}
	return addresses, nil
}

// implementations returns the functions that a resolver chooses from: the functions whose addresses it computes.
func (c *code) implementations(resolver elf.Symbol) (found []elf.Symbol, err error) {
	flow, err := c.follow(resolver)
	if err != nil {
		return nil, err
	}
	for _, address := range flow.Addresses {
		if _, own := flow.At(address); !own && c.finder.Begins(address) {
			found = append(found, elf.Symbol{Name: resolver.Name, Value: address, Info: byte(elf.STT_FUNC)})
		}
	}
	if len(found) == 0 {
		return nil, errors.New("its implementations are unknown: name one of them, see nm")
	}
	return found, nil
}
