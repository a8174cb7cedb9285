// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"purerdma/abi"
)

// IBAddr is an address of InfiniBand (struct sockaddr_ib, rdma/ib.h of the
// kernel), AF_IB among the address families. All numbers are in the byte order of
// the machine. The zero IBAddr is no address.
type IBAddr struct {
	// PKey is the partition; 0xffff is the default one.
	PKey uint16
	// FlowInfo is the traffic class and flow label, as in IPv6.
	FlowInfo uint32
	// GID is the port's; zero is any port.
	GID [16]byte
	// ServiceID is the ID of the listening service. For services that IP ports are mapped to, it is
	// (port space)<<16 + port.
	ServiceID uint64
	// ServiceIDMask has a one for each significant bit of ServiceID.
	ServiceIDMask uint64
	// ScopeID is the interface of a link-local GID.
	ScopeID uint64
}

// Port returns the port of a ServiceID that an IP port is mapped to.
func (a IBAddr) Port() uint16 { return uint16(a.ServiceID) }

// String returns the GID and the service ID, as "ib[fe80::2:c903:0:1]:0x1061d2f".
func (a IBAddr) String() string {
	return fmt.Sprintf("ib[%v]:%#x", netip.AddrFrom16(a.GID), a.ServiceID)
}

// Offsets in struct sockaddr_ib.
const (
	sockaddrIBPKey     = 2
	sockaddrIBFlowInfo = 4
	sockaddrIBAddr     = 8
	sockaddrIBSID      = 24
	sockaddrIBSIDMask  = 32
	sockaddrIBScope    = 40
)

func (a IBAddr) encode(sa *abi.SockaddrStorage) {
	binary.NativeEndian.PutUint16(sa[:], abi.AF_IB)
	binary.BigEndian.PutUint16(sa[sockaddrIBPKey:], a.PKey)
	binary.BigEndian.PutUint32(sa[sockaddrIBFlowInfo:], a.FlowInfo)
	copy(sa[sockaddrIBAddr:], a.GID[:])
	binary.BigEndian.PutUint64(sa[sockaddrIBSID:], a.ServiceID)
	binary.BigEndian.PutUint64(sa[sockaddrIBSIDMask:], a.ServiceIDMask)
	binary.NativeEndian.PutUint64(sa[sockaddrIBScope:], a.ScopeID)
}

func decodeIBAddr(sa *abi.SockaddrStorage) IBAddr {
	return IBAddr{
		PKey:          binary.BigEndian.Uint16(sa[sockaddrIBPKey:]),
		FlowInfo:      binary.BigEndian.Uint32(sa[sockaddrIBFlowInfo:]),
		GID:           [16]byte(sa[sockaddrIBAddr:]),
		ServiceID:     binary.BigEndian.Uint64(sa[sockaddrIBSID:]),
		ServiceIDMask: binary.BigEndian.Uint64(sa[sockaddrIBSIDMask:]),
		ScopeID:       binary.NativeEndian.Uint64(sa[sockaddrIBScope:]),
	}
}
