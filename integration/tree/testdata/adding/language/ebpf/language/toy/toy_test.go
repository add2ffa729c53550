package toy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/headwater/headwater/ebpf/language"
)

// memory begins at address 0.
type memory struct{ *bytes.Reader }

func (m memory) ReadEach(addrs []uint64, size int, b []byte) (int, error) {
	for i, addr := range addrs {
		if _, err := m.ReadAt(b[i*size:][:size], int64(addr)); err != nil {
			return i, nil
		}
	}
	return len(addrs), nil
}

func attach(t *testing.T, d description) (language.Code, error) {
	t.Helper()
	var b bytes.Buffer
	b.Write(make([]byte, 0x110))
	if err := binary.Write(&b, binary.LittleEndian, d); err != nil {
		t.Fatal(err)
	}
	return library{description: 0x10}.Attach(language.Process{Bias: 0x100, Memory: memory{bytes.NewReader(b.Bytes())}})
}

func TestAttach(t *testing.T) {
	if _, err := attach(t, description{}); !errors.Is(err, language.ErrNotReady) {
		t.Errorf("a runtime that has not begun: %v", err)
	}
	if _, err := attach(t, description{Low: 2, High: 1}); err == nil {
		t.Error("code that ends before it begins is believed")
	}
	code, err := attach(t, description{Low: 0x7001000, High: 0x7003000, Name: [16]byte{'m', 'a', 'i', 'n'}})
	if err != nil {
		t.Fatal(err)
	}
	vaddr := 0x7002000 - language.Base(0x7001000)
	page, err := code.Page(vaddr>>13, 13)
	if err != nil {
		t.Fatal(err)
	}
	if rule := page.Rule(vaddr); rule != framePointer {
		t.Errorf("rule %v, want %v", rule, framePointer)
	}
	if lines := code.Lines(code.Identify(vaddr, 0)); len(lines) != 1 || lines[0].Function != "main" {
		t.Errorf("the code is called %v", lines)
	}
	if changed := code.Changed(code.Built()); len(changed) > 0 {
		t.Errorf("pages %d have changed", changed)
	}
}
