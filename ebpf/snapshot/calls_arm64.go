package snapshot

// hasSelfPointer says that what a thread pointer points to begins with its own address.
const hasSelfPointer = false

// olderCallWaits are system calls that newer architectures do not have.
var olderCallWaits map[int64]string
