package procfs

// Parent returns the PID of a process's parent, or 0 if it has no parent here.
func (f FS) Parent(pid uint32) (uint32, error) {
	parent, err := f.statNumbers(pid, 4)
	if err != nil {
		return 0, err
	}
	return uint32(parent[0]), nil
}
