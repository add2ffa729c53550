package procfs

// Parent returns the PID of a process's parent, 0 for one that has none here.
func (f FS) Parent(pid uint32) (uint32, error) {
	parent, err := f.statNumbers(pid, 4)
	if err != nil {
		return 0, err
	}
	return uint32(parent[0]), nil
}
