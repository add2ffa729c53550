package wait

// byOlderCall are system calls that newer architectures do not have.
var byOlderCall map[int64]string
