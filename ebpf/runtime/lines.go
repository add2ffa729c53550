package runtime

import (
	"encoding/binary"
	"sort"
)

// lineBytes is what an entry of a Function.Table takes: where it begins, and the line.
const lineBytes = 8

// AppendLine adds to a Function.Table that there is a line, or none if it is not positive, from ip on. Those before
// are at lower ones, or at the same, which they lose. A table that is full stays as it is.
func AppendLine(table []byte, ip uint64, line int) []byte {
	if line < 0 || line > 1<<31-1 {
		line = 0
	}
	if ip > 1<<32-1 {
		return table
	}
	if last := len(table) - lineBytes; last >= 0 && ipOf(table[last:]) == ip {
		table = table[:last]
	}
	if last := len(table) - lineBytes; last >= 0 && lineOf(table[last:]) == line || len(table)+lineBytes > MaxTable {
		return table
	}
	table = binary.LittleEndian.AppendUint32(table, uint32(ip))
	return binary.LittleEndian.AppendUint32(table, uint32(line))
}

// LineAt returns the line at ip, 0 if there is none.
func LineAt(table []byte, ip uint64) int {
	after := sort.Search(len(table)/lineBytes, func(i int) bool { return ipOf(table[i*lineBytes:]) > ip })
	if after == 0 {
		return 0
	}
	return lineOf(table[(after-1)*lineBytes:])
}

func ipOf(entry []byte) uint64 { return uint64(binary.LittleEndian.Uint32(entry)) }
func lineOf(entry []byte) int  { return int(binary.LittleEndian.Uint32(entry[4:])) }
