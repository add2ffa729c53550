package unwind

// ExeID numbers executables: files, and for each process the code that a language runtime makes in
// it. Numbers are not reused. It is 0 outside of all files.
type ExeID uint32

// CodeID numbers a piece of code that a language runtime made, within its executable. An address is
// not sufficient, because such code comes and goes. It is 0 in files.
type CodeID uint32

// UnknownCode is runtime-made code without a known number.
const UnknownCode CodeID = 1
