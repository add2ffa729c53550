// Package unnamed detects interpreters whose functions are not named yet. Each native frame that runs their functions
// gets a placeholder frame, such as [PHP code]. Each language is one line of a table.
package unnamed

import (
	"fmt"
	"slices"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// interpreter describes one interpreter. All symbols are exported symbols, which remain in a stripped file.
type interpreter struct {
	name string
	mark string // a file with this symbol is the interpreter
	made string // the frame for its JIT code (also of regular expressions) that no perf map names
	// Functions that run functions of the language, best group first: the first group with a symbol in the file is
	// used. If the evaluation loop is not exported, they are its entry points. If nil, all code is JIT code.
	run  [][]string
	hint string // how to get names for its JIT code; "" if there is no way
}

// table has the languages. If a file has several marks, the first one in the table is used.
var table = []interpreter{
	{"PHP", "zend_execute", "[code made by PHP]", [][]string{{"execute_ex"}}, ""},
	{"Ruby", "ruby_run_node", "[Ruby code]", [][]string{
		{"rb_vm_exec"}, // up to 3.2
		{"ruby_run_node", "rb_funcallv", "rb_funcallv_kw", "rb_yield", "rb_yield_values2", "rb_block_call"},
	}, ""},
	{"Perl", "Perl_runops_standard", "[Perl code]", [][]string{{"Perl_runops_standard", "Perl_runops_debug"}}, ""},
	{"Lua", "luaL_newstate", "[Lua code]", [][]string{ // 5.2 and later; 5.1 and LuaJIT
		{"lua_callk", "lua_pcallk", "lua_resume"},
		{"lua_call", "lua_pcall", "lua_cpcall", "lua_resume"},
	}, ""},
	{"Mono", "mono_jit_init", "[code made by Mono]", nil, "start mono with --jitmap"},
	{".NET", "coreclr_initialize", "[code made by .NET]", nil, "start it with DOTNET_PerfMapEnabled=1"},
	{"Erlang", "enif_alloc", "[code made by Erlang]", nil, "start erl with +JPperf true"},
	{"Julia", "jl_init", "[code made by Julia]", nil, ""},
	{"PyPy", "pypy_execute_source", "[code made by PyPy]", nil, ""},
	{"SBCL", "call_into_lisp", "[code made by SBCL]", nil, ""},
	{"Racket", "racket_apply", "[code made by Racket]", nil, ""},
	{"Chez Scheme", "Sscheme_init", "[code made by Chez Scheme]", nil, ""},
	{"Guile", "scm_init_guile", "[code made by Guile]", nil, ""},
	{"numba", "PyInit__helperlib", "[code made by numba]", nil, ""}, // a library for Python
}

// Language detects these interpreters. It implements language.Language.
type Language struct{}

// Name implements language.Language.
func (Language) Name() string { return "" }

// Detect implements language.Language. It searches the exported symbols of the file.
func (Language) Detect(_ string, file *elffile.File) language.Library {
	i := slices.IndexFunc(table, func(l interpreter) bool { return len(exported(file, l.mark)) > 0 })
	if i < 0 {
		return nil
	}
	if table[i].run == nil {
		return &library{of: &table[i]}
	}
	for _, group := range table[i].run {
		if ranges := exported(file, group...); len(ranges) > 0 {
			return &library{of: &table[i], ranges: ranges}
		}
	}
	return nil
}

// exported returns the code ranges of the given functions that the file exports.
func exported(file *elffile.File, functions ...string) (found []language.Range) {
	for _, name := range functions {
		if s, ok, err := file.DynamicSymbol(name); ok && err == nil && s.Size > 0 {
			found = append(found, language.Range{Low: s.Value, High: s.Value + s.Size})
		}
	}
	return found
}

// library is a file that contains an interpreter. It implements language.Library.
type library struct {
	of     *interpreter
	ranges []language.Range
}

// Attach implements language.Library: JIT code of the listed languages has no rows.
func (*library) Attach(language.Process) (language.Code, error) { return nil, language.ErrUnknown }

// Traits implements language.Library.
func (l *library) Traits() language.Traits {
	if l.of.run == nil {
		return language.Traits{Frames: language.GeneratedFrames, Generates: l.of.name}
	}
	return language.Traits{Frames: language.PlaceholderFrames}
}

// Evaluation implements language.Library.
func (l *library) Evaluation() (runs, entering []language.Range) { return l.ranges, nil }

// FindFrames implements language.Library.
func (l *library) FindFrames(language.Process) (language.FrameReader, error) {
	unnamed := &language.UnnamedError{
		Frame: fmt.Sprintf("[%s code]", l.of.name),
		Made:  l.of.made,
		Hint: fmt.Sprintf("Headwater does not name functions of %s yet: the frame marks their place, and its "+
			"callees are native functions", l.of.name),
	}
	if l.of.run == nil {
		unnamed.Frame = l.of.made
		unnamed.Hint = fmt.Sprintf("functions of %s are JIT code, which has no names", l.of.name)
		if l.of.hint != "" {
			unnamed.Hint += " unless a perf map has them: " + l.of.hint
		}
	}
	return nil, unnamed
}
