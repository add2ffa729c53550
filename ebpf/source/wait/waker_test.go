package wait

import (
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/kernel"
)

// The stacks are from Linux 6.18 on amd64 and 6.1 on arm64, as `perf script` shows them, cut.
func TestWaker(t *testing.T) {
	for _, test := range []struct {
		name  string
		waker kernel.Waker
		stack string
		want  string
	}{
		{"a thread of the process", kernel.Waker{ByPID: 7, ByTID: 8, ByComm: "worker", ByProcess: "server"},
			"try_to_wake_up wake_up_q futex_wake do_futex __x64_sys_futex do_syscall_64", "worker"},
		{"another process", kernel.Waker{ByPID: 9, ByTID: 10, ByComm: "writer-1", ByProcess: "client"},
			"try_to_wake_up __wake_up_common anon_pipe_write vfs_write", "client"},
		{"no stack", kernel.Waker{ByPID: 9, ByTID: 9, ByComm: "sh", ByProcess: "sh"}, "", "sh"},
		{"loopback, in the sender", kernel.Waker{ByPID: 9, ByTID: 9, ByProcess: "curl"},
			"sock_def_readable tcp_rcv_established net_rx_action handle_softirqs do_softirq __local_bh_enable_ip " +
				"tcp_sendmsg do_syscall_64", "curl"},
		{"a timer of a busy CPU", kernel.Waker{ByPID: 9, ByTID: 9, ByProcess: "busy"},
			"try_to_wake_up hrtimer_wakeup __hrtimer_run_queues hrtimer_interrupt __sysvec_apic_timer_interrupt", Timer},
		{"a timer of an idle CPU", kernel.Waker{ByKernel: true, ByComm: "swapper/1", ByProcess: "swapper/1"},
			"try_to_wake_up process_timeout call_timer_fn.isra.0 __run_timers run_timer_softirq", Timer},
		{"a packet, after a timer", kernel.Waker{ByPID: 9, ByTID: 9, ByProcess: "busy"},
			"sock_def_readable net_rx_action handle_softirqs irq_exit_rcu sysvec_apic_timer_interrupt", Interrupt},
		{"a device", kernel.Waker{ByPID: 9, ByTID: 9, ByProcess: "busy"},
			"wake_up_page_bit bio_endio virtblk_done handle_irq_event el1_interrupt el1h_64_irq_handler", Interrupt},
		{"an idle CPU", kernel.Waker{ByKernel: true, ByComm: "swapper/0"}, "try_to_wake_up", Interrupt},
		{"work on the way back to the program", kernel.Waker{ByPID: 9, ByTID: 9, ByProcess: "io"},
			"io_req_task_work task_work_run irqentry_exit_to_user_mode asm_sysvec_apic_timer_interrupt", "io"},
		{"a thread of the kernel", kernel.Waker{ByPID: 40, ByTID: 40, ByKernel: true, ByComm: "kworker/0:1H"},
			"try_to_wake_up process_one_work worker_thread kthread", "kworker"},
		{"packets that wait for their turn", kernel.Waker{ByPID: 15, ByTID: 15, ByKernel: true, ByComm: "ksoftirqd/0"},
			"sock_def_readable net_rx_action run_ksoftirqd smpboot_thread_fn", Interrupt},
	} {
		if got := Waker(&test.waker, 7, strings.Fields(test.stack)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
