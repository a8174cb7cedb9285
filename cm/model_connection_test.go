// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"encoding/binary"
	"slices"
	"syscall"

	"purerdma/abi"
)

// connectionCommand executes a command on an ID of connections.
func (k *modelKernel) connectionCommand(cmd uint32, id *modelID, b []byte) error {
	in := func(states ...modelState) bool { return slices.Contains(states, id.state) }
	switch {
	case cmd == abi.RDMA_USER_CM_CMD_CONNECT && in(modelRouteResolved):
		k.to(id, modelReqSent)
		k.later(func() { k.request(id) })
		k.timer(id, modelReqSent) // no answer comes
	case cmd == abi.RDMA_USER_CM_CMD_ACCEPT:
		if abi.View[abi.UcmAccept](b[8:]).ConnParam.Valid == 0 {
			return k.confirm(id)
		}
		if !in(modelReqRcvd) {
			return k.failAccept(id)
		}
		id.uid = binary.NativeEndian.Uint64(b[8:])
		k.accept(id)
	case cmd == abi.RDMA_USER_CM_CMD_REJECT && in(modelReqSent, modelReqRcvd, modelRepSent, modelRepRcvd):
		k.reject(id, RejectConsumer)
		k.to(id, modelEnded)
	case cmd == abi.RDMA_USER_CM_CMD_DISCONNECT && in(modelEstablished):
		k.disconnect(id)
	case cmd == abi.RDMA_USER_CM_CMD_DISCONNECT && in(modelReqSent, modelReqRcvd, modelRepSent, modelRepRcvd, modelDreqSent, modelEnded):
		// Linux returns 0 although it can send neither a request nor an answer.
	case cmd == abi.RDMA_USER_CM_CMD_NOTIFY && in(modelRepSent):
		k.to(id, modelEstablished)
		k.tell(id, EventEstablished, 0)
	case cmd == abi.RDMA_USER_CM_CMD_NOTIFY && in(modelEstablished):
		return syscall.EISCONN
	default:
		return syscall.EINVAL
	}
	return nil
}

// timer ends an ID as unreachable in some cases, if it is still in the state.
func (k *modelKernel) timer(id *modelID, in modelState) {
	k.later(func() {
		if k.rnd.IntN(4) == 0 {
			k.end(id, EventUnreachable, -int(syscall.ETIMEDOUT), in)
		}
	})
}

// reject sends a rejection to the peer of an ID.
func (k *modelKernel) reject(id *modelID, reason int) {
	switch peer := id.peer; {
	case peer == nil:
	case id.ud:
		k.refuse(id)
	default:
		k.later(func() {
			k.end(peer, EventRejected, reason, modelReqSent, modelReqRcvd, modelRepSent, modelRepRcvd, modelEstablished)
		})
	}
}

// request handles the arrival of a REQ, or of a SIDR_REQ.
func (k *modelKernel) request(from *modelID) {
	if from.gone || from.state != modelReqSent {
		return
	}
	var listeners []*modelID
	for _, l := range k.all() {
		if l.state == modelListening && l.ud == from.ud {
			listeners = append(listeners, l)
		}
	}
	dev := k.device()
	if len(listeners) == 0 || dev == noDevice {
		if from.ud {
			k.end(from, EventUnreachable, sidrNoService, modelReqSent)
		}
		k.end(from, EventRejected, RejectInvalidServiceID, modelReqSent)
		return
	}
	l := listeners[k.rnd.IntN(len(listeners))]
	if l.dev != noDevice {
		dev = l.dev
	}
	id := k.create(l.file, 0)
	id.state, id.ud, id.dev, id.peer, from.peer = modelReqRcvd, l.ud, dev, from, id
	l.file.queue(modelEvent{
		resp:  abi.UcmEventResp{UID: l.uid, ID: id.kid, Event: uint32(EventConnectRequest)},
		move:  modelMove{l, l.state, l.turn},
		child: id,
	})
}

// accept sends a REP to a peer, which may have ended.
func (k *modelKernel) accept(id *modelID) {
	k.to(id, modelRepSent)
	k.later(func() {
		if peer := id.peer; !peer.gone && peer.state == modelReqSent {
			k.to(peer, modelRepRcvd)
			k.tell(peer, EventConnectResponse, 0)
		}
	})
	k.timer(id, modelRepSent) // the confirmation does not come
}

// confirm sends an RTU, which may be lost.
func (k *modelKernel) confirm(id *modelID) error {
	if id.state != modelRepRcvd {
		return k.failAccept(id)
	}
	k.to(id, modelEstablished)
	k.later(func() {
		if peer := id.peer; !peer.gone && peer.state == modelRepSent && k.rnd.IntN(4) > 0 {
			k.to(peer, modelEstablished)
			k.tell(peer, EventEstablished, 0)
		}
	})
	return nil
}

// failAccept handles an impossible ACCEPT. Linux rejects the peer before it returns the error,
// and sends no event to the program.
func (k *modelKernel) failAccept(id *modelID) error {
	if slices.Contains([]modelState{modelReqSent, modelReqRcvd, modelRepSent}, id.state) {
		k.reject(id, RejectConsumer)
		k.to(id, modelEnded)
	}
	return syscall.EINVAL
}

// disconnect sends a DREQ. A peer that has been destroyed answers it automatically.
func (k *modelKernel) disconnect(id *modelID) {
	if id.ud {
		return
	}
	k.to(id, modelDreqSent)
	k.later(func() {
		k.end(id.peer, EventDisconnected, 0, modelRepSent, modelRepRcvd, modelEstablished, modelDreqSent)
		k.later(func() {
			k.end(id, EventDisconnected, 0, modelDreqSent)
			k.later(func() {
				if id.state == modelEnded {
					k.tell(id, EventTimewaitExit, 0)
				}
			})
		})
	})
}
