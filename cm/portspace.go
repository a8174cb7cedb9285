// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"

	"purerdma/abi"
)

// PortSpace is what a port number means, and with it the kind of QP behind an ID
// (enum rdma_port_space, rdma_cma.h).
type PortSpace uint16

// PortSpaceTCP is the space of reliable connections (RDMA_PS_TCP).
const PortSpaceTCP PortSpace = abi.RDMA_PS_TCP

func (ps PortSpace) String() string {
	switch ps {
	case PortSpaceTCP:
		return "RDMA_PS_TCP"
	}
	return fmt.Sprintf("port space %#x", uint16(ps))
}
