// Package wait says what threads wait for: a lock, a disk, a CPU.
package wait

import (
	"strings"

	"github.com/headwater/headwater/ebpf/kernel"
)

// What threads wait for. docs/reference/cli.md lists them.
const (
	Child        = "child"         // another process, to end or to start
	Disk         = "disk"          // a block device, or a page of a file
	Epoll        = "epoll"         // one of the files of an epoll
	Event        = "event"         // an eventfd, timerfd or inotify
	FileLock     = "file_lock"     // a lock on a file
	FileServer   = "file_server"   // the server of a network or FUSE file system
	Frozen       = "frozen"        // the cgroup to be thawed
	IOUring      = "io_uring"      // completions of io_uring
	KernelLock   = "kernel_lock"   // a lock that the kernel has for itself, such as the lock of an address space
	Lock         = "lock"          // a futex: mutex, condition, semaphore, join
	Memory       = "memory"        // memory to become free, or below the cgroup's limit
	MessageQueue = "message_queue" // a message of System V or POSIX
	PageFault    = "page_fault"    // a page of memory, other than from disk
	Pipe         = "pipe"          // the other end of a pipe
	Poll         = "poll"          // one of the files of a poll or select
	RunQueue     = "run_queue"     // a CPU
	Semaphore    = "semaphore"     // a semaphore of System V
	Signal       = "signal"        // a signal
	Sleep        = "sleep"         // time to pass
	Socket       = "socket"        // data, room or a connection of a socket
	Terminal     = "terminal"      // input or output of a terminal
	VCPU         = "vcpu"          // the virtual CPU of a guest to have work
)

// byFunction has the reasons of kernel functions that wait. The innermost listed function of a stack counts.
var byFunction = invert(map[string]string{
	Child: "do_wait kernel_wait4 kernel_waitid wait_for_vfork_done",
	Disk: "io_schedule io_schedule_timeout folio_wait_bit_common wait_on_page_bit_common wait_on_page_bit " +
		"bit_wait_io __wait_on_buffer blk_io_schedule submit_bio_wait do_swap_page read_events do_io_getevents " +
		"jbd2_log_wait_commit wait_transaction_locked balance_dirty_pages balance_dirty_pages_ratelimited_flags " +
		"xlog_wait_on_iclog sync_inodes_sb",
	Epoll:    "ep_poll do_epoll_wait do_epoll_pwait",
	Event:    "eventfd_read eventfd_write timerfd_read timerfd_read_iter inotify_read fanotify_read",
	FileLock: "fcntl_setlk do_lock_file_wait locks_lock_inode_wait flock_lock_inode_wait posix_lock_inode_wait",
	FileServer: "request_wait_answer __fuse_request_send rpc_wait_bit_killable nfs_wait_bit_killable " +
		"wait_for_response",
	Frozen:  "do_freezer_trap __refrigerator cgroup_enter_frozen",
	IOUring: "io_cqring_wait io_wq_worker io_sq_thread",
	KernelLock: "__mutex_lock __mutex_lock_slowpath rwsem_down_read_slowpath rwsem_down_write_slowpath " +
		"percpu_rwsem_wait __down __down_common __rt_mutex_slowlock rt_mutex_slowlock rtlock_slowlock_locked " +
		"rt_spin_lock",
	Lock: "futex_wait_queue futex_wait_queue_me futex_do_wait futex_wait __futex_wait futex_wait_multiple " +
		"futex_lock_pi futex_wait_requeue_pi do_futex",
	Memory: "mem_cgroup_handle_over_high __mem_cgroup_handle_over_high throttle_direct_reclaim " +
		"mem_cgroup_oom_synchronize",
	MessageQueue: "do_msgrcv do_msgsnd wq_sleep do_mq_timedreceive do_mq_timedsend",
	PageFault:    "handle_userfault handle_mm_fault do_user_addr_fault exc_page_fault do_page_fault",
	Pipe: "pipe_read pipe_write anon_pipe_read anon_pipe_write fifo_pipe_read fifo_pipe_write fifo_open " +
		"wait_for_partner pipe_wait_readable pipe_wait_writable",
	Poll:      "do_sys_poll do_poll do_select core_sys_select poll_schedule_timeout",
	Semaphore: "do_semtimedop __do_semtimedop",
	Signal: "do_sigtimedwait sigsuspend __do_sys_pause __ia32_sys_pause __x64_sys_pause signalfd_dequeue " +
		"signalfd_read",
	Sleep: "do_nanosleep hrtimer_nanosleep common_nsleep alarm_timer_nsleep",
	Socket: "unix_stream_read_generic unix_stream_data_wait unix_accept unix_wait_for_peer __unix_dgram_recvmsg " +
		"sk_wait_data tcp_recvmsg tcp_sendmsg inet_csk_accept inet_wait_for_connect inet_stream_connect " +
		"__skb_wait_for_more_packets __skb_recv_udp __skb_recv_datagram sock_alloc_send_pskb sk_stream_wait_memory " +
		"sk_stream_wait_connect sock_recvmsg sock_sendmsg vsock_stream_recvmsg",
	Terminal: "n_tty_read n_tty_write tty_wait_until_sent",
	VCPU:     "kvm_vcpu_block kvm_vcpu_halt",
})

// invert returns the reason of each word.
func invert(words map[string]string) map[string]string {
	out := map[string]string{}
	for reason, list := range words {
		for word := range strings.FieldsSeq(list) {
			out[word] = reason
		}
	}
	return out
}

// Of returns what a thread waits for, "" if it does not wait or the reason is not known. functions are the functions of
// its kernel stack, leaf first; the number of the system call counts if none has a reason.
func Of(t *kernel.Thread, functions []string) string {
	switch {
	case t.State == kernel.Runnable:
		return RunQueue
	case t.State == kernel.Frozen:
		return Frozen
	case !t.State.Waits():
		return ""
	}
	for _, f := range functions {
		name, _, _ := strings.Cut(f, ".") // without suffixes of compilers: .isra.0, .part.0
		if reason := byFunction[name]; reason != "" {
			return reason
		}
	}
	return byCall[t.Call]
}
