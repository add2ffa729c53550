package wait

import (
	"maps"

	"golang.org/x/sys/unix"
)

// byCall has the reasons of system calls that wait for one thing only.
var byCall = func() map[int64]string {
	all := map[int64]string{
		unix.SYS_FUTEX:       Lock,
		unix.SYS_EPOLL_PWAIT: Epoll,
		unix.SYS_PPOLL:       Poll, unix.SYS_PSELECT6: Poll,
		unix.SYS_RECVFROM: Socket, unix.SYS_RECVMSG: Socket, unix.SYS_RECVMMSG: Socket,
		unix.SYS_SENDTO: Socket, unix.SYS_SENDMSG: Socket, unix.SYS_SENDMMSG: Socket,
		unix.SYS_ACCEPT: Socket, unix.SYS_ACCEPT4: Socket, unix.SYS_CONNECT: Socket,
		unix.SYS_NANOSLEEP: Sleep, unix.SYS_CLOCK_NANOSLEEP: Sleep,
		unix.SYS_WAIT4: Child, unix.SYS_WAITID: Child,
		unix.SYS_RT_SIGTIMEDWAIT: Signal, unix.SYS_RT_SIGSUSPEND: Signal,
		unix.SYS_FSYNC: Disk, unix.SYS_FDATASYNC: Disk, unix.SYS_SYNC: Disk, unix.SYS_IO_GETEVENTS: Disk,
		unix.SYS_IO_URING_ENTER: IOUring,
		unix.SYS_FLOCK:          FileLock,
		unix.SYS_SEMOP:          Semaphore, unix.SYS_SEMTIMEDOP: Semaphore,
		unix.SYS_MSGRCV: MessageQueue, unix.SYS_MSGSND: MessageQueue,
		unix.SYS_MQ_TIMEDRECEIVE: MessageQueue, unix.SYS_MQ_TIMEDSEND: MessageQueue,
	}
	maps.Copy(all, byOlderCall)
	return all
}()
