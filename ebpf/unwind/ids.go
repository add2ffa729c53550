package unwind

// ExeID is an executable, by number: a file, or what stands for the code that a language
// runtime makes in one process. Numbers are not used again. It is 0 outside of all files.
type ExeID uint32

// CodeID is a piece of the code that a language runtime has made, numbered in its
// executable: an address alone does not say which, for code comes and goes. It is 0 in
// files.
type CodeID uint32

// UnknownCode is code that a runtime has made and that is not known by number.
const UnknownCode CodeID = 1
