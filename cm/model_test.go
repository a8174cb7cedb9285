// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"

	"purerdma/abi"
	"purerdma/verbs"
)

// modelState is the state of an ID in modelKernel: what the kernel's two state
// machines, that of addresses and that of connections, come to.
type modelState int

const (
	modelIdle modelState = iota
	modelBound
	modelAddrQuery
	modelAddrResolved
	modelRouteQuery
	modelRouteResolved
	modelReqSent
	modelReqRcvd
	modelRepSent
	modelRepRcvd
	modelEstablished
	modelDreqSent
	modelEnded
	modelListening
)

type modelID struct {
	kid   uint32
	uid   uint64
	state modelState
	peer  *modelID
	gone  bool // destroyed
}

// modelKernel is a kernel with its connections: it takes the commands that Linux
// takes in a state, refuses the others, and lets its IDs talk to each other over a
// network on which any message may take as long as it likes, or a peer's patience end
// before it. It is for one goroutine.
type modelKernel struct {
	rnd    *rand.Rand
	lastID uint32
	ids    map[uint32]*modelID
	net    []func() // what is under way: messages, resolutions, timers
	events []abi.UcmEventResp
	closed bool
}

// tell queues an event. One of a request that nobody has answered is the kernel's own.
func (k *modelKernel) tell(id *modelID, typ EventType, status int) {
	if id.uid != 0 && !id.gone {
		k.events = append(k.events, abi.UcmEventResp{UID: id.uid, ID: id.kid, Event: uint32(typ), Status: uint32(status)})
	}
}

// later puts something on the network.
func (k *modelKernel) later(what func()) { k.net = append(k.net, what) }

// step lets one thing that is under way happen.
func (k *modelKernel) step() {
	i := k.rnd.IntN(len(k.net))
	what := k.net[i]
	k.net = append(k.net[:i], k.net[i+1:]...)
	what()
}

// end ends an ID with an event, if it is in one of the states.
func (k *modelKernel) end(id *modelID, typ EventType, status int, in ...modelState) {
	if slices.Contains(in, id.state) && !id.gone {
		id.state = modelEnded
		k.tell(id, typ, status)
	}
}

// reject sends the peer of an ID a REJ.
func (k *modelKernel) reject(id *modelID, reason int) {
	if peer := id.peer; peer != nil {
		k.later(func() {
			k.end(peer, EventRejected, reason, modelReqSent, modelReqRcvd, modelRepSent, modelRepRcvd, modelEstablished)
		})
	}
}

// request is the arrival of a REQ.
func (k *modelKernel) request(from *modelID) {
	if from.gone || from.state != modelReqSent {
		return
	}
	var listeners []*modelID
	for kid := range k.lastID + 1 {
		if l := k.ids[kid]; l != nil && l.state == modelListening {
			listeners = append(listeners, l)
		}
	}
	if len(listeners) == 0 {
		k.end(from, EventRejected, RejectInvalidServiceID, modelReqSent)
		return
	}
	l := listeners[k.rnd.IntN(len(listeners))]
	id := k.create(0)
	id.state, id.peer, from.peer = modelReqRcvd, from, id
	k.events = append(k.events, abi.UcmEventResp{UID: l.uid, ID: id.kid, Event: uint32(EventConnectRequest)})
}

func (k *modelKernel) create(uid uint64) *modelID {
	k.lastID++
	id := &modelID{kid: k.lastID, uid: uid}
	k.ids[id.kid] = id
	return id
}

// accept sends a REP, to a peer that may have lost its patience.
func (k *modelKernel) accept(id *modelID) {
	id.state = modelRepSent
	k.later(func() {
		if peer := id.peer; !peer.gone && peer.state == modelReqSent {
			peer.state = modelRepRcvd
			k.tell(peer, EventConnectResponse, 0)
		}
	})
	k.later(func() { // the confirmation does not come
		if k.rnd.IntN(4) == 0 {
			k.end(id, EventUnreachable, -int(syscall.ETIMEDOUT), modelRepSent)
		}
	})
}

// establish sends an RTU, which may be lost.
func (k *modelKernel) establish(id *modelID) {
	id.state = modelEstablished
	k.later(func() {
		if peer := id.peer; !peer.gone && peer.state == modelRepSent && k.rnd.IntN(4) > 0 {
			peer.state = modelEstablished
			k.tell(peer, EventEstablished, 0)
		}
	})
}

// disconnect sends a DREQ, which the peer answers by itself if it has gone.
func (k *modelKernel) disconnect(id *modelID) {
	id.state = modelDreqSent
	k.later(func() {
		k.end(id.peer, EventDisconnected, 0, modelRepSent, modelRepRcvd, modelEstablished, modelDreqSent)
		k.later(func() { k.end(id, EventDisconnected, 0, modelDreqSent) })
	})
}

func (k *modelKernel) destroy(id *modelID) {
	switch id.state {
	case modelReqSent:
		k.reject(id, RejectTimeout)
	case modelReqRcvd, modelRepSent, modelRepRcvd:
		k.reject(id, RejectConsumer)
	case modelEstablished:
		k.disconnect(id)
	}
	id.gone = true
	delete(k.ids, id.kid)
}

// command carries a command out, and returns what Linux answers.
func (k *modelKernel) command(cmd uint32, id *modelID, b []byte) error {
	in := func(states ...modelState) bool { return slices.Contains(states, id.state) }
	switch {
	case cmd == abi.RDMA_USER_CM_CMD_DESTROY_ID:
		k.destroy(id)
	case cmd == abi.RDMA_USER_CM_CMD_QUERY:
		(*abi.UcmQueryAddrResp)(pointerAt(b, 8)).PortNum = 1
	case cmd == abi.RDMA_USER_CM_CMD_BIND && in(modelIdle):
		id.state = modelBound
	case cmd == abi.RDMA_USER_CM_CMD_RESOLVE_ADDR && in(modelIdle, modelBound):
		id.state = modelAddrQuery
		k.resolve(id, modelAddrQuery, modelAddrResolved, EventAddrResolved, modelBound, EventAddrError)
	case cmd == abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE && in(modelAddrResolved):
		id.state = modelRouteQuery
		k.resolve(id, modelRouteQuery, modelRouteResolved, EventRouteResolved, modelAddrResolved, EventRouteError)
	case cmd == abi.RDMA_USER_CM_CMD_LISTEN && in(modelIdle, modelBound):
		id.state = modelListening
	case cmd == abi.RDMA_USER_CM_CMD_CONNECT && in(modelRouteResolved):
		id.state = modelReqSent
		k.later(func() { k.request(id) })
		k.later(func() { // nobody answers
			if k.rnd.IntN(4) == 0 {
				k.end(id, EventUnreachable, -int(syscall.ETIMEDOUT), modelReqSent)
			}
		})
	case cmd == abi.RDMA_USER_CM_CMD_ACCEPT && abi.View[abi.UcmAccept](b[8:]).ConnParam.Valid != 0 && in(modelReqRcvd):
		id.uid = binary.NativeEndian.Uint64(b[8:])
		k.accept(id)
	case cmd == abi.RDMA_USER_CM_CMD_ACCEPT && abi.View[abi.UcmAccept](b[8:]).ConnParam.Valid == 0 && in(modelRepRcvd):
		k.establish(id)
	case cmd == abi.RDMA_USER_CM_CMD_REJECT && in(modelReqRcvd, modelRepRcvd):
		k.reject(id, RejectConsumer)
		id.state = modelEnded
	case cmd == abi.RDMA_USER_CM_CMD_DISCONNECT && in(modelEstablished):
		k.disconnect(id)
	case cmd == abi.RDMA_USER_CM_CMD_DISCONNECT && in(modelDreqSent, modelEnded):
		// Answered already.
	case cmd == abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		r := (*abi.UverbsQPAttr)(pointerAt(b, 8))
		r.QPState = binary.NativeEndian.Uint32(b[20:])
		if verbs.QPState(r.QPState) != verbs.QPInit && !in(modelReqRcvd, modelRepSent, modelRepRcvd, modelEstablished) || in(modelEnded) {
			return syscall.EINVAL
		}
		r.QPAttrMask = uint32(verbs.QPAttrState | attrsOf[r.QPState])
	default:
		return syscall.EINVAL
	}
	return nil
}

// resolve has a query end well, or not.
func (k *modelKernel) resolve(id *modelID, during, well modelState, told EventType, ill modelState, failed EventType) {
	k.later(func() {
		switch {
		case id.gone || id.state != during:
		case k.rnd.IntN(5) == 0:
			id.state = ill
			k.tell(id, failed, -int(syscall.ETIMEDOUT))
		default:
			id.state = well
			k.tell(id, told, 0)
		}
	})
}

func (k *modelKernel) Write(b []byte) error {
	cmd := binary.NativeEndian.Uint32(b)
	if cmd == abi.RDMA_USER_CM_CMD_CREATE_ID {
		*(*uint32)(pointerAt(b, 16)) = k.create(binary.NativeEndian.Uint64(b[8:])).kid
		return nil
	}
	id := k.ids[binary.NativeEndian.Uint32(b[8+idOffset[cmd]:])]
	if id == nil {
		return syscall.ENOENT
	}
	return k.command(cmd, id, b)
}

// WriteWhenReadable never waits: there is nobody else.
func (k *modelKernel) WriteWhenReadable(ctx context.Context, b []byte) error {
	if k.closed {
		return net.ErrClosed
	}
	if len(k.events) == 0 {
		return context.Canceled
	}
	*(*abi.UcmEventResp)(pointerAt(b, 8)) = k.events[0]
	k.events = k.events[1:]
	return nil
}

func (k *modelKernel) Wake()                             {}
func (k *modelKernel) Control(fn func(fd uintptr)) error { fn(3); return nil }
func (k *modelKernel) Close() error                      { k.closed = true; return nil }
