package cpython

import (
	"path"
	"strings"

	"github.com/headwater/headwater/ebpf/runtime"
)

// switches has the libraries whose code switches a thread to a different chain of frames than its caller's.
var switches = [...]struct {
	prefix string // of the name of the file
	to     runtime.Switch
}{
	{"_greenlet.", runtime.ToStack}, // greenlet, and so gevent, eventlet and SQLAlchemy's asyncio
	{"greenlet.", runtime.ToStack},  // before 1.0
	{"_xxsubinterpreters.", runtime.ToState},
	{"_interpreters.", runtime.ToState}, // from 3.13 on
}

// Switches implements runtime.Switching.
func (l *library) Switches(file string) runtime.Switch {
	name := path.Base(file)
	for _, s := range switches {
		if strings.HasPrefix(name, s.prefix) {
			return s.to
		}
	}
	return runtime.NoSwitch
}
