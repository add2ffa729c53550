package snapshot

import (
	"maps"

	"golang.org/x/sys/unix"
)

// callWaits says what system calls wait for that wait for one thing only.
var callWaits = func() map[int64]string {
	all := map[int64]string{
		unix.SYS_FUTEX:       WaitLock,
		unix.SYS_EPOLL_PWAIT: WaitEpoll,
		unix.SYS_PPOLL:       WaitPoll, unix.SYS_PSELECT6: WaitPoll,
		unix.SYS_RECVFROM: WaitSocket, unix.SYS_RECVMSG: WaitSocket, unix.SYS_RECVMMSG: WaitSocket,
		unix.SYS_SENDTO: WaitSocket, unix.SYS_SENDMSG: WaitSocket, unix.SYS_SENDMMSG: WaitSocket,
		unix.SYS_ACCEPT: WaitSocket, unix.SYS_ACCEPT4: WaitSocket, unix.SYS_CONNECT: WaitSocket,
		unix.SYS_NANOSLEEP: WaitSleep, unix.SYS_CLOCK_NANOSLEEP: WaitSleep,
		unix.SYS_WAIT4: WaitChild, unix.SYS_WAITID: WaitChild,
		unix.SYS_RT_SIGTIMEDWAIT: WaitSignal, unix.SYS_RT_SIGSUSPEND: WaitSignal,
		unix.SYS_FSYNC: WaitDisk, unix.SYS_FDATASYNC: WaitDisk, unix.SYS_SYNC: WaitDisk, unix.SYS_IO_GETEVENTS: WaitDisk,
		unix.SYS_IO_URING_ENTER: WaitIOUring,
		unix.SYS_FLOCK:          WaitFileLock,
		unix.SYS_SEMOP:          WaitSemaphore, unix.SYS_SEMTIMEDOP: WaitSemaphore,
		unix.SYS_MSGRCV: WaitMessageQueue, unix.SYS_MSGSND: WaitMessageQueue,
		unix.SYS_MQ_TIMEDRECEIVE: WaitMessageQueue, unix.SYS_MQ_TIMEDSEND: WaitMessageQueue,
	}
	maps.Copy(all, olderCallWaits)
	return all
}()
