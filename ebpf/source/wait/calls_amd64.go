package wait

import "golang.org/x/sys/unix"

// byOlderCall are system calls that newer architectures do not have.
var byOlderCall = map[int64]string{
	unix.SYS_EPOLL_WAIT: Epoll, unix.SYS_POLL: Poll, unix.SYS_SELECT: Poll, unix.SYS_PAUSE: Signal,
}
