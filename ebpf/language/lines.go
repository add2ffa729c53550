package language

import (
	"encoding/binary"
	"sort"
)

// lineBytes is the size of an entry of a Function.Table: the ip at which it starts, and the line.
const lineBytes = 8

// AppendLine adds to a Function.Table a line that starts at ip, or the end of lines if line is not positive. Calls are
// in ascending order of ip; the last call for an ip wins. A full table stays as it is.
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

// LineAt returns the line at ip, or 0 if there is none.
func LineAt(table []byte, ip uint64) int {
	after := sort.Search(len(table)/lineBytes, func(i int) bool { return ipOf(table[i*lineBytes:]) > ip })
	if after == 0 {
		return 0
	}
	return lineOf(table[(after-1)*lineBytes:])
}

func ipOf(entry []byte) uint64 { return uint64(binary.LittleEndian.Uint32(entry)) }
func lineOf(entry []byte) int  { return int(binary.LittleEndian.Uint32(entry[4:])) }
