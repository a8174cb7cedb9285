// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"purerdma/ucma"
	"purerdma/verbs"
)

// IBAddr is an address of InfiniBand (struct sockaddr_ib, infiniband/ib.h): the
// GID of a port and a service ID. The zero IBAddr is no address.
type IBAddr = ucma.IBAddr

// defaultPKey is the partition that every port is a full member of.
const defaultPKey = 0xffff

// AddrFromGID returns the address that librdmacm makes of a GID and a port
// (rdma_getaddrinfo(3) with AF_IB): in the default partition, at the service ID of
// that port in a port space. Port 0 and port space 0 are any.
func AddrFromGID(gid verbs.GID, ps PortSpace, port uint16) Addr {
	ib := IBAddr{PKey: defaultPKey, GID: gid, ServiceID: uint64(ps)<<16 | uint64(port)}
	if ps != 0 {
		ib.ServiceIDMask |= ibPortSpaceMask
	}
	if port != 0 {
		ib.ServiceIDMask |= ibPortMask
	}
	return Addr{IB: ib}
}

// Which bits of a service ID are the port space and which the port
// (RDMA_IB_IP_PS_MASK and RDMA_IB_IP_PORT_MASK, rdma_cma.h).
const (
	ibPortSpaceMask = 0xffffffffffff0000
	ibPortMask      = 0xffff
)
