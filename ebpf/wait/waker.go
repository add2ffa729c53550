package wait

import (
	"strings"

	"github.com/headwater/headwater/ebpf/kernel"
)

// Who wakes threads, if it is no task.
const (
	Timer     = "timer"     // the time that a thread wanted to wait at most has passed
	Interrupt = "interrupt" // a device, mostly: a disk has answered, a packet has come
)

// task says that the task that runs does it itself, whatever has brought it into the kernel.
const task = "task"

// byWaker says what functions of the kernel mean that wake threads. The innermost one of a stack that is listed counts.
var byWaker = invert(map[string]string{
	Timer: "__hrtimer_run_queues hrtimer_run_queues hrtimer_run_softirq __run_timers run_timer_softirq call_timer_fn " +
		"expire_timers",
	Interrupt: "common_interrupt asm_common_interrupt do_IRQ ret_from_intr el0_irq el1_irq el0_interrupt el1_interrupt " +
		"el0t_64_irq el0t_32_irq el1h_64_irq gic_handle_irq run_ksoftirqd",
	task: "exit_to_user_mode_loop exit_to_user_mode_prepare irqentry_exit_to_user_mode do_notify_resume",
})

// interruptPrefixes begin the names of the interrupts of x86 that have one each.
var interruptPrefixes = []string{"sysvec_", "__sysvec_", "asm_sysvec_"}

// Waker returns who has woken a thread of a process: Timer, Interrupt, the name of another thread of the process, or
// that of another process, of the kernel's threads without a number. functions are those of the kernel's stack then,
// leaf first.
func Waker(w *kernel.Waker, pid uint32, functions []string) string {
	for _, f := range functions {
		name, _, _ := strings.Cut(f, ".") // what compilers add
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
	case w.ByTID == 0: // an idle CPU wakes nobody by itself
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
