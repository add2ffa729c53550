package snapshot

import "golang.org/x/sys/unix"

// hasSelfPointer says that what a thread pointer points to begins with its own address.
const hasSelfPointer = true

// olderCallWaits are system calls that newer architectures do not have.
var olderCallWaits = map[int64]string{
	unix.SYS_EPOLL_WAIT: WaitEpoll, unix.SYS_POLL: WaitPoll, unix.SYS_SELECT: WaitPoll, unix.SYS_PAUSE: WaitSignal,
}
