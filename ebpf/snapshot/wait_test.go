package snapshot

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
)

func TestWait(t *testing.T) {
	for _, test := range []struct {
		state     kernel.ThreadState
		call      int64
		functions []string
		want      string
	}{
		{kernel.Running, unix.SYS_FUTEX, nil, ""},
		{kernel.Stopped, unix.SYS_FUTEX, []string{"do_signal_stop"}, ""},
		{kernel.Runnable, unix.SYS_FUTEX, []string{"futex_do_wait"}, WaitRunQueue},
		{kernel.Sleeping, unix.SYS_FUTEX, nil, WaitLock},
		{kernel.Sleeping, unix.SYS_READ, []string{"schedule", "anon_pipe_read", "vfs_read"}, WaitPipe},
		{kernel.Sleeping, unix.SYS_READ, []string{"wait_woken", "n_tty_read"}, WaitTerminal},
		{kernel.Sleeping, unix.SYS_READ, []string{"unix_stream_read_generic.isra.0"}, WaitSocket},
		{kernel.Uninterruptible, kernel.NoCall, []string{"io_schedule", "__folio_lock", "handle_mm_fault"}, WaitDisk},
		{kernel.Uninterruptible, kernel.NoCall, []string{"handle_userfault", "exc_page_fault"}, WaitPageFault},
		{kernel.Sleeping, unix.SYS_READ, []string{"something_new"}, ""},
		{kernel.Sleeping, kernel.NoCall, nil, ""},
	} {
		got := Wait(&kernel.Thread{State: test.state, Call: test.call}, test.functions)
		if got != test.want {
			t.Errorf("%s in system call %d and %v: %q, want %q", test.state, test.call, test.functions, got, test.want)
		}
	}
}
