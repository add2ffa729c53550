package heap

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/codeflow"
)

// maxFunctions bounds the functions that a function leads to by jumps only, and that return in its place.
const maxFunctions = 64

// errUncertain reports why a function is not probed.
var errUncertain = errors.New("its returns are uncertain")

// follower follows the functions of an allocator in one file.
type follower struct {
	file   *elffile.File
	finder *codeflow.Finder
	known  map[uint64]bool   // the functions, by address
	stubs  map[uint64]string // functions to which stubs of the procedure linkage table jump, by the stubs' addresses
}

// followAll returns the functions of an allocator to probe, with the instructions by which they return, and an error
// that names the functions that are left out because it is not certain where they return.
func followAll(file *elffile.File, candidates []candidate) (found []kernel.HeapFunction, leftOut, err error) {
	finder, err := codeflow.NewFinder(file)
	if err != nil {
		return nil, nil, err
	}
	f := &follower{file: file, finder: finder, known: map[uint64]bool{}}
	for _, c := range candidates {
		f.known[c.vaddr] = true
	}
	if f.stubs, err = stubNames(file); err != nil {
		return nil, nil, err
	}
	isMalloc := func(c candidate) bool { return c.Call == kernel.HeapMalloc }
	hasMalloc, complete := slices.ContainsFunc(candidates, isMalloc), false
	for _, c := range candidates {
		probed, err := f.follow(&c)
		if err != nil {
			leftOut = errors.Join(leftOut, fmt.Errorf("%s: %w: %w", c.Name, errUncertain, err))
		} else if probed {
			found = append(found, c.HeapFunction)
			complete = complete || isMalloc(c) || !hasMalloc && c.gives()
		}
	}
	if !complete {
		return nil, leftOut, nil // most blocks would be missing
	}
	return found, leftOut, nil
}

// stubNames returns the names of the functions that stubs jump to, by the stubs' addresses.
func stubNames(file *elffile.File) (map[uint64]string, error) {
	stubs, err := file.Stubs()
	if err != nil {
		return nil, err
	}
	names, resolved := map[uint64]string{}, map[uint64][]uint64{}
	for _, s := range stubs {
		names[s.Value] = s.Name
		if s.Name == "" {
			resolved[s.Resolver] = append(resolved[s.Resolver], s.Value)
		}
	}
	for _, table := range []elf.SectionType{elf.SHT_DYNSYM, elf.SHT_SYMTAB} {
		symbols, err := file.SymbolTable(table)
		if errors.Is(err, elffile.ErrNoSection) {
			continue
		}
		if err != nil {
			return nil, err
		}
		texts := symbols.AllNames()
		err = symbols.Functions(func(s elffile.Function) bool {
			for _, stub := range resolved[s.Value] {
				if name, err := texts.At(s.Name); err == nil && names[stub] == "" {
					names[stub] = string(name)
				}
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// follow finds where a function returns, and reports whether to probe it. An operator that calls another function of
// the allocator is not probed: the called function is.
func (f *follower) follow(c *candidate) (probed bool, err error) {
	flow, err := f.finder.Function(c.vaddr, c.size)
	if err != nil {
		return false, err
	}
	if isOperator(c.Name) && f.leadsToProbed(flow) {
		return false, nil
	}
	if c.Call == kernel.HeapFree {
		return true, nil
	}
	isStub := func(addr uint64) bool { _, ok := f.stubs[addr]; return ok || f.finder.IsStub(addr) }
	c.Nested = flow.CallsBySlot || slices.ContainsFunc(flow.Calls, isStub) || f.leadsToProbed(flow)
	return true, f.addEnds(c, flow, map[uint64]bool{c.vaddr: true})
}

// leadsToProbed reports whether a function calls, or jumps to, a function of an allocator in this file or another. An
// operator that does is not probed.
func (f *follower) leadsToProbed(flow *codeflow.Function) bool {
	isProbed := func(addr uint64) bool { return f.known[addr] || isAllocating(f.stubs[addr]) }
	leavesTo := func(in codeflow.Instruction) bool { return in.Kind == codeflow.Leave && isProbed(in.To) }
	return slices.ContainsFunc(flow.Calls, isProbed) || slices.ContainsFunc(flow.Exits(), leavesTo)
}

func isAllocating(name string) bool {
	_, ok := callOf(name)
	return ok
}

// returnsArgument are functions that return their first argument.
var returnsArgument = []string{"memset", "__memset_chk", "memcpy", "memmove"}

// addEnds adds the instructions by which a function, or one that it jumps to, returns. seen are the functions that it
// has led to so far.
func (f *follower) addEnds(c *candidate, flow *codeflow.Function, seen map[uint64]bool) error {
	if flow.Unfollowed != 0 {
		return fmt.Errorf("the jump at %#x has a computed target", flow.Unfollowed)
	}
	for _, exit := range flow.Exits() {
		offset, ok := fileOffset(f.file, exit.Addr)
		if !ok {
			return fmt.Errorf("%#x is in no segment of code", exit.Addr)
		}
		stub, isStub := f.stubs[exit.To]
		if !isStub && exit.Kind == codeflow.Leave && c.Call == kernel.HeapCalloc && f.finder.IsStub(exit.To) {
			// In a static program only functions that are chosen at its start have stubs, and calloc ends with memset.
			stub, isStub = "memset", true
		}
		name, _, _ := strings.Cut(stub, "@")
		switch {
		case exit.Conditional:
			return fmt.Errorf("a conditional jump at %#x leaves it", exit.Addr)
		case exit.Kind == codeflow.Return:
			c.Returns = append(c.Returns, offset)
		case isStub && slices.Contains(returnsArgument, name):
			c.Arguments = append(c.Arguments, offset)
		case isStub && isAllocating(name): // its returns are probed, with the same stack pointer
		case isStub, exit.Kind == codeflow.Slot:
			return fmt.Errorf("it jumps to the function %q of another file at %#x", name, exit.Addr)
		case seen[exit.To]:
		case len(seen) == maxFunctions:
			return fmt.Errorf("more than %d functions jump to each other", maxFunctions)
		default:
			seen[exit.To] = true
			next, err := f.finder.Function(exit.To, 0)
			if err != nil {
				return err
			}
			if err := f.addEnds(c, next, seen); err != nil {
				return err
			}
		}
	}
	return nil
}
