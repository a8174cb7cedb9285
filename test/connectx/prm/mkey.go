// SPDX-License-Identifier: Apache-2.0

package prm

// MKC is the context of a memory key.
var MKC = struct {
	Free, UMREnabled, RelaxedWrite, SmallFence, Atomic, RemoteWrite, RemoteRead, LocalWrite, LocalRead,
	AccessModeHigh, AccessModeLow, TranslationMode,
	QPN, Key, Length64, BSFEnabled, SyncUMR, RemoteInvalidate, PD, StartAddr, Length,
	BSFOctwords, TranslationOctwords, RelaxedRead, LogPageSize Field
}{
	Free:                bit(0x00, 30),
	AccessModeHigh:      bits(0x00, 28, 26),
	RelaxedWrite:        bit(0x00, 18),
	SmallFence:          bit(0x00, 16),
	UMREnabled:          bit(0x00, 15),
	Atomic:              bit(0x00, 14),
	RemoteWrite:         bit(0x00, 13),
	RemoteRead:          bit(0x00, 12),
	LocalWrite:          bit(0x00, 11),
	LocalRead:           bit(0x00, 10),
	AccessModeLow:       bits(0x00, 9, 8),
	TranslationMode:     bits(0x00, 5, 4),
	QPN:                 bits(0x04, 31, 8), // 0xffffff is any
	Key:                 bits(0x04, 7, 0),
	Length64:            bit(0x0c, 31), // all of the address space
	BSFEnabled:          bit(0x0c, 30),
	SyncUMR:             bit(0x0c, 29),
	RemoteInvalidate:    bit(0x0c, 24),
	PD:                  bits(0x0c, 23, 0),
	StartAddr:           qword(0x10),
	Length:              qword(0x18),
	BSFOctwords:         dword(0x20),
	TranslationOctwords: dword(0x34),
	RelaxedRead:         bit(0x38, 6),
	LogPageSize:         bits(0x38, 5, 0),
}

// Bits of an entry of a list of pages (MTT). They contain the allowed operations of the page.
// The other bits of the entry are the page's DMA address.
const (
	MTTRead  = 1 << 0
	MTTWrite = 1 << 1
)

// AnyQP is the MKC.QPN of a key that is not bound to a QP.
const AnyQP = 0xffffff

// Access modes of a key, from MKC.AccessModeHigh and MKC.AccessModeLow.
const (
	AccessPA  = 0 // addresses are DMA addresses.
	AccessMTT = 1 // a list of pages.
	AccessKLM = 2 // a list of pieces of other keys.
	AccessKSM = 3 // a list of pieces of other keys with one size
)

// Mode returns the access mode of a key.
func Mode(mkc []byte) uint64 { return MKC.AccessModeHigh.Get(mkc)<<2 | MKC.AccessModeLow.Get(mkc) }

// SetMode changes the access mode of a key.
func SetMode(mkc []byte, mode uint64) {
	MKC.AccessModeHigh.Set(mkc, mode>>2)
	MKC.AccessModeLow.Set(mkc, mode&3)
}

// CreateMkeyIn is the input of CREATE_MKEY. QUERY_MKEY's output has the context at
// the same place.
var CreateMkeyIn = struct {
	Opcode, UID, OpMod        Field
	PageAccess, UMEMValid     Field
	Context                   Area
	TranslationOctwordsActual Field
	Translation               Tail // MTTs or KLMs
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	PageAccess:                bit(0x0c, 31),
	UMEMValid:                 bit(0x0c, 30),
	Context:                   area(0x10, 64),
	TranslationOctwordsActual: dword(0x60),
	Translation:               0x110,
}

// SpecialContextsOut is the output of QUERY_SPECIAL_CONTEXTS.
var SpecialContextsOut = struct {
	Status, Syndrome                   Field
	DumpFillMkey, ReservedLKey, NullMK Field
}{
	Status: HeaderOut.Status, Syndrome: HeaderOut.Syndrome,
	DumpFillMkey: dword(0x08),
	ReservedLKey: dword(0x0c),
	NullMK:       dword(0x10),
}

// Keys that always exist.
const (
	ReservedLKey = 0x100 // also ends the list of a receive
	NullMkey     = 0x200
	DumpFillMkey = 0x300 // discards written data, and returns zeros
)

// KLM is one entry of a list of pieces of other keys.
var KLM = struct{ ByteCount, Key, Address Field }{
	ByteCount: dword(0x00), Key: dword(0x04), Address: qword(0x08),
}
