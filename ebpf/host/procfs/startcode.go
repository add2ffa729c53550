package procfs

// Exe returns the path through which the file of a process's program is opened.
func (f FS) Exe(pid uint32) string { return f.pathOf(f.thread(pid), "/exe") }

// StartCode returns the address where the code of a process's program starts, as the kernel records it
// (proc_pid_stat(5), startcode). It is 0 without the right to trace the process.
func (f FS) StartCode(pid uint32) (uint64, error) {
	start, err := f.statNumbers(pid, 26)
	if err != nil {
		return 0, err
	}
	return start[0], nil
}
