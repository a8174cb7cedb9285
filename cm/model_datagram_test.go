// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"encoding/binary"
	"slices"
	"syscall"

	"purerdma/abi"
)

// Statuses of a SIDR_REP that refuses a request.
const (
	sidrNoService = 1
	sidrReject    = 2
)

// datagramQPN returns the number of the QP in an ID's answer.
func datagramQPN(id *modelID) uint32 { return 1000 + id.kid }

// datagramCommand executes a command on a datagram ID. CONNECT sends a request, and ACCEPT
// answers it.
func (k *modelKernel) datagramCommand(cmd uint32, id *modelID, b []byte) error {
	in := func(states ...modelState) bool { return slices.Contains(states, id.state) }
	switch {
	case cmd == abi.RDMA_USER_CM_CMD_CONNECT && in(modelRouteResolved):
		k.to(id, modelReqSent)
		k.later(func() { k.request(id) })
		k.timer(id, modelReqSent) // no answer comes
	case cmd == abi.RDMA_USER_CM_CMD_ACCEPT && in(modelReqRcvd):
		// An ACCEPT without parameters names no QP.
		if param := &abi.View[abi.UcmAccept](b[8:]).ConnParam; param.Valid != 0 {
			id.uid = binary.NativeEndian.Uint64(b[8:])
		}
		k.to(id, modelEstablished)
		k.answer(id)
	case cmd == abi.RDMA_USER_CM_CMD_REJECT && in(modelReqRcvd):
		k.refuse(id)
		k.to(id, modelEnded)
	case cmd == abi.RDMA_USER_CM_CMD_DISCONNECT && in(modelReqSent, modelReqRcvd, modelEstablished, modelEnded):
		// Linux returns 0 although there is nothing to end.
	default:
		return syscall.EINVAL
	}
	return nil
}

// answer sends a SIDR_REP to a peer, which may have ended.
func (k *modelKernel) answer(id *modelID) {
	qpn := datagramQPN(id)
	k.later(func() {
		if peer := id.peer; !peer.gone && peer.state == modelReqSent {
			k.to(peer, modelEstablished)
			k.tellUD(peer, EventEstablished, 0, abi.UcmUDParam{QPNum: qpn})
		}
	})
}

// refuse sends a SIDR_REP that refuses the request.
func (k *modelKernel) refuse(id *modelID) {
	k.later(func() { k.end(id.peer, EventUnreachable, sidrReject, modelReqSent) })
}
