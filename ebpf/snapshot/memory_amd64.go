package snapshot

// hasSelfPointer says that what a thread pointer points to begins with its own address.
const hasSelfPointer = true
