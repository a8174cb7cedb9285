// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/binary"
)

// cutTCP splits a TCP segment with n bytes of headers into segments of at most mss bytes each.
// It returns nil without such headers.
func cutTCP(frame []byte, n, mss int) (frames [][]byte) {
	h, ok := parse(frame[:n])
	if mss == 0 || !ok {
		return nil
	}
	// The length in the header covers the whole, so only the header itself is parsed.
	ipAt, v := etherHeader, 0
	if h.vlan != nil {
		ipAt += vlanTag
	}
	switch {
	case h.ether == etherIPv4 && n >= ipAt+ipv4Header:
		v = int(frame[ipAt]&15) * 4
	case h.ether == etherIPv6 && n >= ipAt+ipv6Header:
		v = ipv6Header
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
		if h.ether == etherIPv4 {
			binary.BigEndian.PutUint16(f[ipAt+2:], uint16(len(f)-ipAt))
			binary.BigEndian.PutUint16(f[ipAt+4:], id+uint16(i))
		} else {
			binary.BigEndian.PutUint16(f[ipAt+4:], uint16(len(f)-tcpAt))
		}
		binary.BigEndian.PutUint32(f[tcpAt+4:], seq+uint32(i*mss))
		if len(data) > 0 {
			f[tcpAt+13] &^= tcpFIN | tcpPSH
		}
		if i > 0 {
			f[tcpAt+13] &^= tcpCWR
		}
		frames = append(frames, f)
	}
	return frames
}

// TCP flags that not all segments have.
const (
	tcpFIN = 1 << 0
	tcpPSH = 1 << 3
	tcpCWR = 1 << 7
)
