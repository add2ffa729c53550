package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// writeInitramfs writes an archive of files by name, all of them executable, and of /arguments with the arguments of
// /test, one per line.
func writeInitramfs(path string, files map[string]string, arguments []string) error {
	a := archive{}
	for _, dir := range []string{"dev", "proc", "sys", "tmp"} {
		a.addEntry(entry{name: dir, mode: 0o040755})
	}
	a.addEntry(entry{name: "dev/console", mode: 0o020600, major: 5, minor: 1})
	for name, host := range files {
		data, err := os.ReadFile(host)
		if err != nil {
			return err
		}
		a.addEntry(entry{name: name, mode: 0o100755, data: data})
	}
	a.addEntry(entry{name: "arguments", mode: 0o100644, data: []byte(strings.Join(arguments, "\n"))})
	a.addEntry(entry{name: "TRAILER!!!"})
	return os.WriteFile(path, a.text.Bytes(), 0o644)
}

// archive is a cpio archive in the "newc" format, which the kernel unpacks:
// Documentation/driver-api/early-userspace/buffer-format.rst.
type archive struct {
	text  bytes.Buffer
	count int
}

// entry is a file of an archive; mode includes its type, as in stat(2).
type entry struct {
	name         string
	mode         uint32
	major, minor uint32 // of a device
	data         []byte
}

func (a *archive) addEntry(e entry) {
	a.count++
	fmt.Fprintf(&a.text, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.count, e.mode, 0, 0, 1, 0, len(e.data), 0, 0, e.major, e.minor, len(e.name)+1, 0)
	a.text.WriteString(e.name + "\x00")
	a.align()
	a.text.Write(e.data)
	a.align()
}

// align pads to a multiple of four bytes.
func (a *archive) align() {
	for a.text.Len()%4 != 0 {
		a.text.WriteByte(0)
	}
}
