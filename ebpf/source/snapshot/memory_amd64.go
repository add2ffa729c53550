package snapshot

// hasSelfPointer says that the memory at a thread pointer starts with its own address.
const hasSelfPointer = true
