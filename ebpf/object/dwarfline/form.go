package dwarfline

// form is how an attribute is stored (DWARF 5 section 7.5.6, table 7.6).
type form uint16

const (
	formAddr         form = 0x01
	formBlock2       form = 0x03
	formBlock4       form = 0x04
	formData2        form = 0x05
	formData4        form = 0x06
	formData8        form = 0x07
	formString       form = 0x08
	formBlock        form = 0x09
	formBlock1       form = 0x0a
	formData1        form = 0x0b
	formFlag         form = 0x0c
	formSdata        form = 0x0d
	formStrp         form = 0x0e
	formUdata        form = 0x0f
	formRefAddr      form = 0x10
	formRef1         form = 0x11
	formRef2         form = 0x12
	formRef4         form = 0x13
	formRef8         form = 0x14
	formRefUdata     form = 0x15
	formIndirect     form = 0x16
	formSecOffset    form = 0x17
	formExprloc      form = 0x18
	formFlagPresent  form = 0x19
	formStrx         form = 0x1a
	formAddrx        form = 0x1b
	formRefSup4      form = 0x1c
	formStrpSup      form = 0x1d
	formData16       form = 0x1e
	formLineStrp     form = 0x1f
	formRefSig8      form = 0x20
	formImplicit     form = 0x21
	formLoclistx     form = 0x22
	formRnglistx     form = 0x23
	formRefSup8      form = 0x24
	formStrx1        form = 0x25
	formStrx2        form = 0x26
	formStrx3        form = 0x27
	formStrx4        form = 0x28
	formAddrx1       form = 0x29
	formAddrx2       form = 0x2a
	formAddrx3       form = 0x2b
	formAddrx4       form = 0x2c
	formGNUAddrIndex form = 0x1f01
	formGNUStrIndex  form = 0x1f02
	formGNURefAlt    form = 0x1f20
	formGNUStrpAlt   form = 0x1f21
)

// encoding holds the properties of a unit that determine the sizes of forms.
type encoding struct {
	version     uint8
	addressSize uint8
	offsetSize  uint8
}

// fixedSize returns the number of bytes of a form with a fixed size.
func (e encoding) fixedSize(f form) (size uint8, ok bool) {
	switch f {
	case formFlagPresent, formImplicit:
		return 0, true
	case formData1, formRef1, formFlag, formStrx1, formAddrx1:
		return 1, true
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2, true
	case formStrx3, formAddrx3:
		return 3, true
	case formData4, formRef4, formRefSup4, formStrx4, formAddrx4:
		return 4, true
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8, true
	case formData16:
		return 16, true
	case formAddr:
		return e.addressSize, true
	case formRefAddr:
		if e.version <= 2 {
			return e.addressSize, true
		}
		return e.offsetSize, true
	case formStrp, formLineStrp, formSecOffset, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return e.offsetSize, true
	}
	return 0, false
}

// skipValue moves c over a value.
func (e encoding) skipValue(c *cursor, f form) {
	if size, ok := e.fixedSize(f); ok {
		c.skipBytes(uint64(size))
		return
	}
	switch f {
	case formUdata, formSdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex,
		formGNUStrIndex:
		c.skipLEB()
	case formString:
		c.cstring()
	case formBlock, formExprloc:
		c.skipBytes(c.uleb())
	case formBlock1:
		c.skipBytes(c.fixed(1))
	case formBlock2:
		c.skipBytes(c.fixed(2))
	case formBlock4:
		c.skipBytes(c.fixed(4))
	case formIndirect:
		if next := form(c.uleb()); next != formIndirect {
			e.skipValue(c, next)
			return
		}
		c.failWith("a form that names itself")
	default:
		c.failWith("unknown form")
	}
}

// value is an attribute's value: a number, address, offset or index, depending on its form.
type value struct {
	form form
	n    uint64 // offset of the text in its section if form is formString
}

// readValue reads a value that is not a block. For a block it returns 0.
func (e encoding) readValue(c *cursor, f form) value {
	if f == formIndirect {
		f = form(c.uleb())
	}
	size, fixed := e.fixedSize(f)
	switch {
	case f == formImplicit || f == formData16: // the value of formImplicit is in the abbreviation
		c.skipBytes(uint64(size))
	case f == formFlagPresent:
		return value{f, 1}
	case fixed:
		return value{f, c.fixed(size)}
	case f == formSdata:
		return value{f, uint64(c.sleb())}
	case f == formString:
		at := c.at
		c.cstring()
		return value{f, at}
	case f == formUdata, f == formRefUdata, f == formStrx, f == formAddrx, f == formRnglistx, f == formGNUAddrIndex,
		f == formGNUStrIndex:
		return value{f, c.uleb()}
	default:
		e.skipValue(c, f)
	}
	return value{form: f}
}
