package cpython

import (
	"path"
	"strings"

	"github.com/headwater/headwater/ebpf/language"
)

// switches has the libraries whose code switches a thread to a different chain of frames than its caller's.
var switches = [...]struct {
	prefix string // of the name of the file
	to     language.Switch
}{
	{"_greenlet.", language.ToStack}, // greenlet, and so gevent, eventlet and SQLAlchemy's asyncio
	{"greenlet.", language.ToStack},  // before 1.0
	{"_xxsubinterpreters.", language.ToState},
	{"_interpreters.", language.ToState}, // from 3.13 on
}

// switchesOf returns how the code of the file with a path switches the chain of a thread.
func switchesOf(file string) language.Switch {
	name := path.Base(file)
	for _, s := range switches {
		if strings.HasPrefix(name, s.prefix) {
			return s.to
		}
	}
	return language.NoSwitch
}
