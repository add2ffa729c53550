package wait

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
)

func TestOf(t *testing.T) {
	for _, test := range []struct {
		state     kernel.ThreadState
		call      int64
		functions []string
		want      string
	}{
		{kernel.Running, unix.SYS_FUTEX, nil, ""},
		{kernel.Stopped, unix.SYS_FUTEX, []string{"do_signal_stop"}, ""},
		{kernel.Runnable, unix.SYS_FUTEX, []string{"futex_do_wait"}, RunQueue},
		{kernel.Sleeping, unix.SYS_FUTEX, nil, Lock},
		{kernel.Sleeping, unix.SYS_READ, []string{"schedule", "anon_pipe_read", "vfs_read"}, Pipe},
		{kernel.Sleeping, unix.SYS_READ, []string{"wait_woken", "n_tty_read"}, Terminal},
		{kernel.Sleeping, unix.SYS_READ, []string{"unix_stream_read_generic.isra.0"}, Socket},
		{kernel.Uninterruptible, kernel.NoCall, []string{"io_schedule", "__folio_lock", "handle_mm_fault"}, Disk},
		{kernel.Uninterruptible, kernel.NoCall, []string{"handle_userfault", "exc_page_fault"}, PageFault},
		{kernel.Sleeping, unix.SYS_READ, []string{"something_new"}, ""},
		{kernel.Sleeping, kernel.NoCall, nil, ""},
	} {
		got := Of(&kernel.Thread{State: test.state, Call: test.call}, test.functions)
		if got != test.want {
			t.Errorf("%s in system call %d and %v: %q, want %q", test.state, test.call, test.functions, got, test.want)
		}
	}
}
