// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"purerdma/abi"
	"purerdma/ucma"
)

// maxAckTimeout is the largest value of the five bits of a local ACK timeout.
const maxAckTimeout = 31

// SetReuseAddr lets several IDs bind the same port (RDMA_OPTION_ID_REUSEADDR,
// rdma_set_option(3)). All of them must ask for it before they bind. It cannot be
// taken back after that.
func (id *ID) SetReuseAddr(on bool) error {
	value := uint32(flag(on))
	op := opReuseAddr
	if !on {
		op = opNoReuseAddr
	}
	return id.setOption(op, abi.RDMA_OPTION_ID_REUSEADDR, abi.Bytes(&value))
}

// SetAFOnly keeps an ID that is bound to the IPv6 wildcard from taking IPv4
// requests (RDMA_OPTION_ID_AFONLY, rdma_set_option(3)). It must be called before
// Bind; the default is the host's net.ipv6.bindv6only.
func (id *ID) SetAFOnly(on bool) error {
	value := uint32(flag(on))
	return id.setOption(opAFOnly, abi.RDMA_OPTION_ID_AFONLY, abi.Bytes(&value))
}

// SetTOS sets the type of service of the packets (RDMA_OPTION_ID_TOS,
// rdma_set_option(3)): the byte of the IP header, from which RoCE takes the
// traffic class and the service level. It must be called before ResolveRoute, or
// on iWARP before Connect or Listen. An accepted ID on RoCE follows the request.
func (id *ID) SetTOS(tos uint8) error {
	return id.setOption(opTOS, abi.RDMA_OPTION_ID_TOS, []byte{tos})
}

// SetAckTimeout sets how long the QP waits for an acknowledgement before it
// sends again (RDMA_OPTION_ID_ACK_TIMEOUT, rdma_set_option(3)): 4.096 us times
// two to the power of timeout, which has five bits; 0 waits for ever. It is for
// IDs with connected QPs, before ResolveRoute on the connecting side, and before
// Accept on the other.
func (id *ID) SetAckTimeout(timeout uint8) error {
	if timeout > maxAckTimeout {
		return id.opError(opAckTimeout, &ParamError{Field: "ACK timeout", Value: int(timeout), Max: maxAckTimeout, Why: "it has five bits"})
	}
	return id.setOption(opAckTimeout, abi.RDMA_OPTION_ID_ACK_TIMEOUT, []byte{timeout})
}

func (id *ID) setOption(op string, name uint32, value []byte) error {
	return id.command(op, func(f *ucma.File, kid uint32) error {
		return f.SetOption(kid, abi.RDMA_OPTION_ID, name, value)
	})
}
