package symbol

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// Limits on MiniDebugInfo. Fedora's largest has some megabytes.
const (
	MaxMiniDebug     = 16 << 20        // compressed bytes in the file
	MaxMiniDebugSize = 32 << 20        // decompressed
	MaxMiniDebugTime = 5 * time.Second // to decompress
)

// held are symbols of an image in memory.
type held struct {
	symbolTables
	image int // bytes
}

func (h held) bytes() int { return h.symbolTables.bytes() + h.image }

// miniDebug returns the symbols in .gnu_debugdata: an ELF image, compressed, with a
// .symtab of the functions that .dynsym does not have (GDB manual,
// "MiniDebugInfo"). They are nil if the file has no such section. reach is as for readSymbols.
func miniDebug(file *elffile.File, reach labelReach) (source, int, error) {
	section, err := file.OpenSection(".gnu_debugdata")
	if errors.Is(err, elffile.ErrNoSection) {
		return nil, 0, nil
	}
	if err == nil && section.Size > MaxMiniDebug {
		err = fmt.Errorf("section .gnu_debugdata: %w", limit.Hit(limit.MiniDebug, elffile.ErrTooLarge))
	}
	if err != nil {
		return nil, 0, err
	}
	packed := make([]byte, section.Size)
	if n, err := section.Data.ReadAt(packed, 0); n < len(packed) {
		return nil, 0, fmt.Errorf("section .gnu_debugdata: %w", err)
	}
	data, err := decompressXZ(packed, MaxMiniDebugSize, time.Now().Add(MaxMiniDebugTime))
	if err != nil {
		return nil, 0, fmt.Errorf("section .gnu_debugdata: %w", err)
	}
	image, err := elffile.New(bytes.NewReader(bytes.Clone(data)))
	if err != nil {
		return nil, 0, fmt.Errorf("section .gnu_debugdata: %w", err)
	}
	symbols, err := readSymbols(image, elf.SHT_SYMTAB, reach)
	if len(symbols) == 0 {
		return nil, 0, err
	}
	return held{symbols, len(data)}, symbols.count(), err
}
