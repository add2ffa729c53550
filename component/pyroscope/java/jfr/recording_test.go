package jfr

import (
	"encoding/binary"
	"strings"
	"testing"
)

// TestNames has class names as the recorder writes them, and the names that CPU profiles have.
func TestNames(t *testing.T) {
	for class, want := range map[string]string{
		"java/util/HashMap":                                  "java.util.HashMap.m",
		"Shop$$Lambda$14.0x0000000800c03000":                 "Shop$$Lambda.m",
		"shop/Shop$$Lambda.0x00007ffa600c4da0":               "shop.Shop$$Lambda.m",
		"shop/Shop$$Lambda$14/2008017533":                    "shop.Shop$$Lambda.m",
		"jdk/internal/reflect/GeneratedMethodAccessor31":     "jdk.internal.reflect.GeneratedMethodAccessor.m",
		"java/lang/invoke/LambdaForm$DMH.0x0000000800c03000": "java.lang.invoke.LambdaForm$DMH.m",
		"java/lang/invoke/LambdaForm$MH/0x0000000800c03000":  "java.lang.invoke.LambdaForm$MH.m",
		"[Ljava/lang/Object;":                                "[Ljava.lang.Object;.m",
	} {
		if got := nameOf(class, "m"); got != want {
			t.Errorf("%s: %s, want %s", class, got, want)
		}
	}
}

// TestInvalid has recordings that no VM writes.
func TestInvalid(t *testing.T) {
	chunk := func(size uint64, rest string) []byte {
		b := append([]byte("FLR\x00\x00\x02\x00\x00"), make([]byte, headerSize-8)...)
		binary.BigEndian.PutUint64(b[8:], size)
		binary.BigEndian.PutUint64(b[16:], headerSize) // constant pool
		binary.BigEndian.PutUint64(b[24:], headerSize) // metadata
		return append(b, rest...)
	}
	for name, recording := range map[string][]byte{
		"text":          []byte("not a recording"),
		"too short":     chunk(headerSize, "")[:40],
		"size 0":        chunk(0, ""),
		"too long":      chunk(1<<40, "x"),
		"empty":         chunk(headerSize, ""),
		"random":        chunk(headerSize+64, strings.Repeat("\x7f\x03", 32)),
		"all bits":      chunk(headerSize+64, strings.Repeat("\xff", 64)),
		"second broken": append(chunk(headerSize, ""), "FLR"...),
	} {
		if r, err := Read(recording, Options{}); err == nil || !strings.Contains(err.Error(), "invalid recording") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if r, err := Read(nil, Options{After: 7}); err != nil || r.Last != 7 || len(r.Profiles) > 0 {
		t.Errorf("nothing: %+v, %v", r, err)
	}
}

// FuzzRead: no input makes Read fail other than by an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte("FLR\x00"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = Read(b, Options{}) })
}
