// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"purerdma/cm"
)

// peer is a peer's description. It contains the role and the address of a listener (struct
// peer_info). The C program sends the struct from its memory, so the peers must have equal byte
// orders.
type peer struct {
	addr   cm.Addr // address of a listener
	listen bool
}

const (
	sockaddrSize = 128 // struct sockaddr_storage
	peerSize     = sockaddrSize + 8
	familyIPv4   = 2
	familyIPv6   = 10 // as in Linux
	roleConnect  = 0
	roleListen   = 1
)

func (p peer) append(b []byte) []byte {
	var buf [peerSize]byte
	if p.listen {
		ip := p.addr.Addr()
		binary.BigEndian.PutUint16(buf[2:], p.addr.Port())
		if ip.Is4() {
			binary.NativeEndian.PutUint16(buf[:], familyIPv4)
			copy(buf[4:], ip.AsSlice())
		} else {
			binary.NativeEndian.PutUint16(buf[:], familyIPv6)
			copy(buf[8:], ip.AsSlice())
		}
		binary.NativeEndian.PutUint32(buf[sockaddrSize:], roleListen)
	}
	return append(b, buf[:]...)
}

// decodePeers decodes and validates the descriptions from peers.
func decodePeers(b []byte) ([]peer, error) {
	var peers []peer
	for n := 0; len(b) >= peerSize; n++ {
		p, err := decodePeer(b)
		if err != nil {
			return nil, fmt.Errorf("peer %d: %w", n, err)
		}
		peers = append(peers, p)
		b = b[peerSize:]
	}
	return peers, nil
}

func decodePeer(b []byte) (peer, error) {
	switch role := binary.NativeEndian.Uint32(b[sockaddrSize:]); role {
	case roleConnect:
		return peer{}, nil
	case roleListen:
	default:
		return peer{}, fmt.Errorf("unknown role %d", role)
	}
	var ip netip.Addr
	switch family := binary.NativeEndian.Uint16(b); family {
	case familyIPv4:
		ip = netip.AddrFrom4([4]byte(b[4:]))
	case familyIPv6:
		ip = netip.AddrFrom16([16]byte(b[8:]))
	default:
		return peer{}, fmt.Errorf("unknown address family %d", family)
	}
	return peer{cm.AddrFrom(netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[2:]))), true}, nil
}
