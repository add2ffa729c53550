package symbol_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/symbol"
)

// A Symbolizer opens an object when one of its addresses is named for the first time.
func ExampleNew() {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	symbolizer := symbol.New(symbol.Options{})
	defer symbolizer.Close()
	program := &symbol.Object{ID: 1, Path: path, Open: func() (*elffile.File, error) { return elffile.Open(path) }}

	address := reflect.ValueOf(strings.ToUpper).Pointer()
	for _, frame := range symbolizer.Frames(program, uint64(address), false) {
		fmt.Println(frame.Function)
	}
	// Output: strings.ToUpper
}
