// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"time"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// SetReuseAddr lets several IDs bind the same port (RDMA_OPTION_ID_REUSEADDR,
// rdma_set_option(3)). It must be called on each of them before they bind. After that it
// cannot be turned off.
func (id *ID) SetReuseAddr(on bool) error {
	value := uint32(flag(on))
	op := opReuseAddr
	if !on {
		op = opNoReuseAddr
	}
	return id.setOption(op, abi.RDMA_OPTION_ID_REUSEADDR, abi.Bytes(&value))
}

// SetAFOnly keeps an ID that is bound to the IPv6 wildcard from taking IPv4 requests
// (RDMA_OPTION_ID_AFONLY, rdma_set_option(3)). It must be called before Bind. The default is
// the host's net.ipv6.bindv6only.
func (id *ID) SetAFOnly(on bool) error {
	value := uint32(flag(on))
	return id.setOption(opAFOnly, abi.RDMA_OPTION_ID_AFONLY, abi.Bytes(&value))
}

// SetTOS sets the type of service of the packets (RDMA_OPTION_ID_TOS, rdma_set_option(3)).
// This is the byte of the IP header from which RoCE takes the traffic class and the service
// level. SetTOS must be called before ResolveRoute, or on iWARP before Connect or Listen. An
// accepted ID on RoCE uses the type of service of the request.
func (id *ID) SetTOS(tos uint8) error {
	return id.setOption(opTOS, abi.RDMA_OPTION_ID_TOS, []byte{tos})
}

// SetAckTimeout sets how long the QP waits for an acknowledgement before it sends again
// (RDMA_OPTION_ID_ACK_TIMEOUT, rdma_set_option(3)). The timeout is rounded up as by
// verbs.EncodeAckTimeout, whose error for other durations is verbs.ErrTimeoutRange.
// verbs.NoTimeout waits without end. SetAckTimeout is for IDs with connected QPs. The
// connecting side must call it before ResolveRoute, the accepting side before Accept.
func (id *ID) SetAckTimeout(timeout time.Duration) error {
	code, err := verbs.EncodeAckTimeout(timeout)
	if err != nil {
		return id.opError(opAckTimeout, err)
	}
	return id.setOption(opAckTimeout, abi.RDMA_OPTION_ID_ACK_TIMEOUT, []byte{code})
}

func (id *ID) setOption(op string, name uint32, value []byte) error {
	return id.run(op, nil, func(f *ucma.File, kid uint32) error {
		return f.SetOption(kid, abi.RDMA_OPTION_ID, name, value)
	})
}
