package language

import "debug/elf"

// GlibcKey returns the steps to the value that pthread_getspecific returns in a thread of a process with glibc, for the
// pthread_key_t at the ELF virtual address key, or nil if the steps are unknown. It supports keys below 32; keys that
// an interpreter creates early are always below 32.
func GlibcKey(machine elf.Machine, key uint64) []Step {
	if machine != elf.EM_X86_64 {
		return nil // on arm64 struct pthread is below the thread pointer, and its size depends on the release
	}
	const (
		values = 0x310 // offset in struct pthread, at the thread pointer, of specific_1stblock
		size   = 16    // of struct pthread_key_data: a sequence number, then the value
		count  = 32    // PTHREAD_KEY_2NDLEVEL_SIZE
	)
	return []Step{
		{Op: ThreadPointer, Offset: values + 8},
		{Op: Index, Offset: int64(key), Scale: size, Limit: count},
		{Op: Load},
	}
}

// MuslKey is GlibcKey for a process with the C library musl.
func MuslKey(machine elf.Machine, key uint64) []Step {
	if machine != elf.EM_X86_64 {
		return nil
	}
	const (
		values = 128 // offset in struct pthread of tsd, a pointer to the values
		size   = 8
		count  = 128 // PTHREAD_KEYS_MAX
	)
	return []Step{
		{Op: ThreadPointer},
		{Op: Load, Offset: values},
		{Op: Index, Offset: int64(key), Scale: size, Limit: count},
		{Op: Load},
	}
}
