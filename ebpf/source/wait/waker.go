package wait

import (
	"strings"

	"github.com/headwater/headwater/ebpf/kernel"
)

// Wakers that are not tasks.
const (
	Timer     = "timer"     // the timeout of a wait has passed
	Interrupt = "interrupt" // mostly of a device: a disk has answered, a packet has come
)

// task says that the running task wakes the thread, however it entered the kernel.
const task = "task"

// byWaker has the meanings of kernel functions that wake threads. The innermost listed function of a stack counts.
var byWaker = invert(map[string]string{
	Timer: "__hrtimer_run_queues hrtimer_run_queues hrtimer_run_softirq __run_timers run_timer_softirq call_timer_fn " +
		"expire_timers",
	Interrupt: "common_interrupt asm_common_interrupt do_IRQ ret_from_intr el0_irq el1_irq el0_interrupt el1_interrupt " +
		"el0t_64_irq el0t_32_irq el1h_64_irq gic_handle_irq run_ksoftirqd",
	task: "exit_to_user_mode_loop exit_to_user_mode_prepare irqentry_exit_to_user_mode do_notify_resume",
})

// interruptPrefixes are the prefixes of the interrupts of x86 that have their own functions.
var interruptPrefixes = []string{"sysvec_", "__sysvec_", "asm_sysvec_"}

// Waker returns the waker of a thread of a process: Timer, Interrupt, the name of another thread of the process, or the
// name of another process; names of kernel threads are without a number. functions are the functions of the kernel
// stack at that time, leaf first.
func Waker(w *kernel.Waker, pid uint32, functions []string) string {
	for _, f := range functions {
		name, _, _ := strings.Cut(f, ".") // without suffixes of compilers
		by := byWaker[name]
		if by == "" && hasInterruptPrefix(name) {
			by = Interrupt
		}
		if by == task {
			break
		}
		if by != "" {
			return by
		}
	}
	switch {
	case w.ByTID == 0: // an idle CPU wakes no thread by itself
		return Interrupt
	case w.ByKernel:
		name, _, _ := strings.Cut(w.ByComm, "/") // kworker/0:1
		return name
	case w.ByPID == pid:
		return w.ByComm
	}
	return w.ByProcess
}

func hasInterruptPrefix(name string) bool {
	for _, p := range interruptPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
