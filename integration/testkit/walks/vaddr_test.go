package walks

import (
	"os"
	"reflect"
	"testing"
	"unsafe"
)

var written, constant = 1, "read only"

// TestIsCode looks at functions and variables of this program, which is where its file says.
func TestIsCode(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	segments := Segments{}
	for _, test := range []struct {
		name    string
		address uintptr
		want    bool
	}{
		{"a function", reflect.ValueOf(TestIsCode).Pointer(), true},
		{"a function of another package", reflect.ValueOf(os.Executable).Pointer(), true},
		{"a variable", uintptr(unsafe.Pointer(&written)), false},
		{"a constant", uintptr(unsafe.Pointer(unsafe.StringData(constant))), false},
		{"nothing", 0, false},
	} {
		if got := segments.IsCode(path, uint64(test.address)); got != test.want {
			t.Errorf("%s at %#x: code %v, want %v", test.name, test.address, got, test.want)
		}
	}
	if !segments.IsCode(path+"-gone", 0) {
		t.Error("a file that cannot be read has no code")
	}
}
