// SPDX-License-Identifier: Apache-2.0

package ethernet

import (
	"bytes"
	"encoding/binary"
)

// CutTCP splits a TCP segment with n bytes of headers into segments of at most mss bytes each.
// It returns nil without such headers.
func CutTCP(frame []byte, n, mss int) (frames [][]byte) {
	h, ok := Parse(frame[:n])
	if mss == 0 || !ok {
		return nil
	}
	// The length in the header covers the whole, so only the header itself is parsed.
	ipAt, v := HeaderLen, 0
	if h.VLAN != nil {
		ipAt += VLANLen
	}
	switch {
	case h.EtherType == TypeIPv4 && n >= ipAt+IPv4Len:
		v = int(frame[ipAt]&15) * 4
	case h.EtherType == TypeIPv6 && n >= ipAt+IPv6Len:
		v = IPv6Len
	}
	tcpAt := ipAt + v
	if v == 0 || n < tcpAt+20 {
		return nil
	}
	seq := binary.BigEndian.Uint32(frame[tcpAt+4:])
	id := binary.BigEndian.Uint16(frame[ipAt+4:])
	for data, i := frame[n:], 0; len(data) > 0; i++ {
		part := data[:min(mss, len(data))]
		data = data[len(part):]
		f := append(bytes.Clone(frame[:n]), part...)
		if h.EtherType == TypeIPv4 {
			binary.BigEndian.PutUint16(f[ipAt+2:], uint16(len(f)-ipAt))
			binary.BigEndian.PutUint16(f[ipAt+4:], id+uint16(i))
		} else {
			binary.BigEndian.PutUint16(f[ipAt+4:], uint16(len(f)-tcpAt))
		}
		binary.BigEndian.PutUint32(f[tcpAt+4:], seq+uint32(i*mss))
		if len(data) > 0 {
			f[tcpAt+13] &^= FIN | PSH
		}
		if i > 0 {
			f[tcpAt+13] &^= CWR
		}
		frames = append(frames, f)
	}
	return frames
}

// Flags of TCP (byte 13 of its header) that not all segments of a message have.
const (
	FIN = 1 << 0
	PSH = 1 << 3
	CWR = 1 << 7
)
