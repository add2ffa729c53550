package runtime

import "debug/elf"

// GlibcKey returns the steps to what pthread_getspecific returns in a thread of a process with
// glibc, for the pthread_key_t at the ELF virtual address key: nil where they are not known.
// It is for keys below 32, which are all that an interpreter makes early.
func GlibcKey(machine elf.Machine, key uint64) []Step {
	if machine != elf.EM_X86_64 {
		return nil // on arm64 the size of struct pthread is between, which is another one in each release
	}
	const (
		values = 0x310 // of struct pthread, where the thread pointer points to: specific_1stblock
		size   = 16    // of struct pthread_key_data: a number, then the value
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
		values = 128 // of struct pthread: tsd, a pointer to the values
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
