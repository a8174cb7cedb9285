// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"encoding/binary"
)

// version is the version of the protocol in the private data.
const version = 1

// connDataLen is the length of the private data in bytes.
const connDataLen = 40

// ibHeaderLen is the length of the header that the kernel fills in before the private data of a
// request between AF_IB addresses (struct cma_hdr of drivers/infiniband/core/cma.c).
const ibHeaderLen = 36

// Flags of the private data.
const (
	flagNet   = 1 << 0 // the sender is big-endian
	flagIOMap = 1 << 1 // the sender has a list of mappings behind its SGL
)

// sglLen is the number of entries in the list of this side (the SGL). The peer writes the address of each
// free part of its receive buffer there, to the entries in turn.
const sglLen = 2

// maxSGLLen bounds the number of entries in the peer's list. rdma-core always has 2.
const maxSGLLen = 1 << 16

// sge is a piece of memory of one side, in the private data and in the lists (struct rs_sge).
type sge struct {
	addr   uint64
	key    uint32
	length uint32
}

// sgeLen is the length of an encoded sge in bytes.
const sgeLen = 16

func (s sge) put(b []byte, order binary.ByteOrder) {
	order.PutUint64(b, s.addr)
	order.PutUint32(b[8:], s.key)
	order.PutUint32(b[12:], s.length)
}

// sgeFrom decodes an entry. A device writes the length last, and sgeFrom reads it first. So the rest of an
// entry with a length is complete.
func sgeFrom(b []byte, order binary.ByteOrder) (s sge) {
	s.length = order.Uint32(b[12:])
	s.key = order.Uint32(b[8:])
	s.addr = order.Uint64(b)
	return s
}

// connData is the private data that both sides exchange when they connect (struct rs_conn_data).
// Its numbers are big-endian.
type connData struct {
	flags   uint8
	credits uint16 // messages that the peer may send
	maps    int    // entries of the list of mappings, which follows the SGL in memory
	sgl     sge    // the SGL. The length is the number of entries.
	data    sge    // the first half of the receive buffer
}

func (d connData) append(b []byte) []byte {
	n := len(b)
	b = append(b, make([]byte, connDataLen)...)
	p := b[n:]
	p[0], p[1] = version, d.flags
	binary.BigEndian.PutUint16(p[2:], d.credits)
	p[7] = encodeMaps(d.maps)
	d.sgl.put(p[8:], binary.BigEndian)
	d.data.put(p[24:], binary.BigEndian)
	return b
}

// errVersion reports a peer with another protocol, or with another version of this protocol.
var errVersion = violation("the private data has no header of rsocket version 1")

// parseConnData decodes and checks private data. Zeros or other bytes may follow it.
func parseConnData(b []byte) (d connData, err error) {
	if len(b) < connDataLen || b[0] != version {
		return d, errVersion
	}
	d.flags = b[1]
	d.credits = binary.BigEndian.Uint16(b[2:])
	if d.flags&flagIOMap != 0 {
		d.maps = decodeMaps(b[7])
	}
	d.sgl = sgeFrom(b[8:], binary.BigEndian)
	d.data = sgeFrom(b[24:], binary.BigEndian)
	if d.sgl.length < sglLen || d.sgl.length > maxSGLLen {
		return d, violation("an SGL of %d entries, want %d to %d", d.sgl.length, sglLen, maxSGLLen)
	}
	return d, nil
}

// order returns the byte order of the sender's memory.
func (d connData) order() binary.ByteOrder {
	if d.flags&flagNet != 0 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// nativeFlags returns the flags of this host.
func nativeFlags() uint8 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], 1)
	return flagIOMap | flagNet*b[1]
}

// mapScale is the number of bits of the code for a number of mappings. Codes up to 128 are the number
// itself. Larger codes count in steps of 256.
const mapScale = 8

// encodeMaps rounds n down to a number that has a code, and returns the code.
func encodeMaps(n int) uint8 {
	if n <= 1<<(mapScale-1) {
		return uint8(n)
	}
	return uint8(1<<(mapScale-1) | n>>mapScale)
}

// decodeMaps is the inverse of encodeMaps.
func decodeMaps(code uint8) int {
	if code <= 1<<(mapScale-1) {
		return int(code)
	}
	return int(code&^(1<<(mapScale-1))) << mapScale
}

// maxMaps is the largest number of mappings that has a code.
var maxMaps = decodeMaps(0xff)
