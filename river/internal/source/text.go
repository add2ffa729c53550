package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeText returns text as UTF-8 without a byte order mark. It recognizes UTF-16 by its mark
// (Unicode 16.0, section 23.8).
func decodeText(text []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(text, []byte{0xEF, 0xBB, 0xBF}):
		text = text[3:]
	case bytes.HasPrefix(text, []byte{0xFF, 0xFE}):
		text = decodeUTF16(text[2:], binary.LittleEndian)
	case bytes.HasPrefix(text, []byte{0xFE, 0xFF}):
		text = decodeUTF16(text[2:], binary.BigEndian)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	return text, nil
}

func decodeUTF16(text []byte, order binary.ByteOrder) []byte {
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}
