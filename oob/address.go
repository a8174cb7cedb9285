// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"syscall"

	"purerdma/verbs"
)

// Address is the address of a queue pair. A peer needs it to connect.
type Address struct {
	LID uint16    // LID of the port, 0 on Ethernet
	QPN uint32    // 24 bits
	PSN uint32    // 24 bits, the packet number of the first send
	GID verbs.GID // zero if peers reach the port by its LID
}

// AddressLen is the length in bytes of an Address on the wire, including the terminating zero
// byte.
const AddressLen = len("0000:000000:000000:00000000000000000000000000000000") + 1

const max24 = 1<<24 - 1

// Local returns the address of a QP on the port of a path, with a random PSN. If the port's
// addresses need a GID, it is the GID at p.SGIDIndex. Local queries the kernel for the port.
func Local(qp *verbs.QP, p *Path) (Address, error) {
	dev := qp.Device()
	port, err := dev.QueryPort(p.port())
	if err != nil {
		return Address{}, err
	}
	var gid verbs.GID
	if port.LinkLayer == verbs.LinkEthernet || port.GRHRequired {
		g, err := dev.GID(p.port(), int(p.SGIDIndex))
		if err != nil {
			return Address{}, err
		}
		gid = g.GID
	}
	return NewAddress(qp, port.LID, gid), nil
}

// NewAddress is like Local for a known LID and GID.
func NewAddress(qp *verbs.QP, lid uint16, gid verbs.GID) Address {
	return Address{LID: lid, QPN: qp.Num(), PSN: rand.Uint32() & max24, GID: gid}
}

// String returns the address as the pingpong programs print it.
func (a Address) String() string {
	return fmt.Sprintf("LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %v", a.LID, a.QPN, a.PSN, a.GID)
}

// append appends the encoding of the address.
func (a Address) append(b []byte) []byte {
	b = fmt.Appendf(b, "%04x:%06x:%06x:", a.LID, a.QPN&max24, a.PSN&max24)
	return append(hex.AppendEncode(b, a.GID[:]), 0)
}

// ParseAddress parses the encoding of an address in AddressLen bytes. Its error wraps EBADMSG.
func ParseAddress(b []byte) (Address, error) {
	bad := func() (Address, error) {
		return Address{}, fmt.Errorf("address %q of the peer: %w", b[:min(len(b), AddressLen)], syscall.EBADMSG)
	}
	if len(b) != AddressLen || b[4] != ':' || b[11] != ':' || b[18] != ':' || b[AddressLen-1] != 0 {
		return bad()
	}
	lid, ok1 := parseHex(b[:4])
	qpn, ok2 := parseHex(b[5:11])
	psn, ok3 := parseHex(b[12:18])
	a := Address{LID: uint16(lid), QPN: qpn, PSN: psn}
	if _, err := hex.Decode(a.GID[:], b[19:AddressLen-1]); err != nil || !ok1 || !ok2 || !ok3 {
		return bad()
	}
	return a, nil
}

// parseHex parses a number of at most 8 hexadecimal digits. It rejects other characters.
func parseHex(b []byte) (n uint32, ok bool) {
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | uint32(c)
	}
	return n, true
}
