package language_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/need"
)

// program says where its thread is, where it has a key, and what pthread_getspecific returns.
const program = `
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
pthread_key_t before[5], key;
static void *thread(void *value)
{
	pthread_setspecific(key, value);
	printf("%lx %lx %lx\n", (unsigned long)pthread_self(), (unsigned long)&key, (unsigned long)pthread_getspecific(key));
	fflush(stdout);
	for (;;)
		pause();
}
int main(void)
{
	pthread_t t;
	for (int i = 0; i < 5; i++)
		pthread_key_create(&before[i], 0);
	pthread_key_create(&key, 0);
	pthread_create(&t, 0, thread, &before[3]);
	pthread_join(t, 0);
}
`

// TestKeys compares the value that the steps lead to with what pthread_getspecific returns.
func TestKeys(t *testing.T) {
	need.Tools(t, "gcc", "musl-gcc")
	if runtime.GOARCH != "amd64" {
		t.Skip("the steps are known on amd64 only")
	}
	for _, compiler := range []string{"gcc", "musl-gcc"} {
		path := filepath.Join(t.TempDir(), "keys")
		compile := exec.Command(compiler, "-pthread", "-x", "c", "-o", path, "-")
		compile.Stdin = strings.NewReader(program)
		if out, err := compile.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", compiler, err, out)
		}
		file, err := elffile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		command := exec.Command(path)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		defer command.Wait()
		defer command.Process.Kill()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var self, key, want uint64
		if _, err := fmt.Sscanf(line, "%x %x %x", &self, &key, &want); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		steps := language.GlibcKey(file.Machine(), key)
		if file.IsMusl() {
			steps = language.MuslKey(file.Machine(), key)
		}
		memory := procfs.Memory{PID: uint32(command.Process.Pid)}
		if got := follow(t, memory, steps, self); got != want {
			t.Errorf("%s: %#x, want %#x", compiler, got, want)
		}
	}
}

// follow takes steps in a process whose bias is 0, in a thread with that thread pointer.
func follow(t *testing.T, m procfs.Memory, steps []language.Step, threadPointer uint64) (at uint64) {
	t.Helper()
	read := func(addr uint64) uint64 {
		var b [8]byte
		if _, err := m.ReadAt(b[:], int64(addr)); err != nil {
			t.Fatal(err)
		}
		return binary.LittleEndian.Uint64(b[:])
	}
	for _, s := range steps {
		switch s.Op {
		case language.ThreadPointer:
			at = threadPointer + uint64(s.Offset)
		case language.Load:
			at = read(at + uint64(s.Offset))
		case language.Index:
			i := uint32(read(uint64(s.Offset)))
			if i >= s.Limit {
				t.Fatalf("key %d", i)
			}
			at += uint64(s.Scale) * uint64(i)
		default:
			t.Fatalf("operation %d", s.Op)
		}
	}
	return at
}
