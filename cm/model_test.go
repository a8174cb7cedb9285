// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/verbs"
)

// modelState is the state of an ID in modelKernel. It combines the kernel's state machines of
// addresses and of connections.
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
	modelEstablished // a datagram ID that has sent or received an answer
	modelDreqSent
	modelEnded
	modelListening
	modelRemoved
)

// noDevice is the device of an ID that has none, or that listens on all devices.
const noDevice = -1

type modelID struct {
	kid   uint32
	uid   uint64
	file  *modelFile
	ud    bool
	dev   int
	state modelState
	turn  int // counts the state changes
	peer  *modelID
	gone  bool // destroyed
}

// modelMove is a state that a command or an event has moved an ID to.
type modelMove struct {
	id    *modelID
	state modelState
	turn  int
}

// refusal is the error of a command.
type refusal struct {
	id  *modelID
	err error
}

// modelEvent is an event in the kernel.
type modelEvent struct {
	resp  abi.UcmEventResp
	move  modelMove   // the state of the listener for a connect request
	child *modelID    // the new ID of a connect request
	group *modelGroup // the group of a membership's event
}

// modelKernel is a kernel with its connections. It accepts the commands that Linux accepts in
// a state, and refuses the others. Its IDs exchange messages over a network with random
// delays. An ID may give up before a message arrives. As in Linux, the next object gets the
// number of a destroyed one.
type modelKernel struct {
	during   func()           // called while a command runs. It does not wait for the command
	surprise func(modelEvent) // called once, after an event was fetched and before it is handled

	mu       sync.Mutex
	rnd      *rand.Rand
	ids      map[uint32]*modelID
	groups   map[uint32]*modelGroup
	files    []*modelFile
	unplug   []bool      // by device
	net      []func()    // pending messages, resolutions and timers
	moves    []modelMove // made by commands since the last check
	refused  []refusal   // errors of commands since the last check
	commands int
}

func newModelKernel(rnd *rand.Rand) *modelKernel {
	return &modelKernel{rnd: rnd, ids: map[uint32]*modelID{}, groups: map[uint32]*modelGroup{}, unplug: make([]bool, 2)}
}

// lowest returns the number that the kernel assigns next.
func lowest[T any](used map[uint32]T) (n uint32) {
	for used, ok := used, true; ok; n++ {
		_, ok = used[n]
	}
	return n - 1
}

func (k *modelKernel) create(f *modelFile, uid uint64) *modelID {
	id := &modelID{kid: lowest(k.ids), uid: uid, file: f, dev: noDevice}
	k.ids[id.kid] = id
	return id
}

// all returns the IDs in the order of their numbers.
func (k *modelKernel) all() (ids []*modelID) {
	for _, kid := range slices.Sorted(maps.Keys(k.ids)) {
		ids = append(ids, k.ids[kid])
	}
	return ids
}

func (k *modelKernel) to(id *modelID, state modelState) {
	id.state = state
	id.turn++
}

// tell queues an event. An unanswered request gets no events.
func (k *modelKernel) tell(id *modelID, typ EventType, status int) {
	k.tellUD(id, typ, status, abi.UcmUDParam{})
}

func (k *modelKernel) tellUD(id *modelID, typ EventType, status int, ud abi.UcmUDParam) {
	if id.uid == 0 || id.gone {
		return
	}
	resp := abi.UcmEventResp{UID: id.uid, ID: id.kid, Event: uint32(typ), Status: uint32(status)}
	copy(resp.Param[:], abi.Bytes(&ud))
	id.file.queue(modelEvent{resp: resp, move: modelMove{id, id.state, id.turn}})
}

// later adds an action to the network.
func (k *modelKernel) later(what func()) { k.net = append(k.net, what) }

// step executes one random action of the network.
func (k *modelKernel) step() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.net) == 0 {
		return
	}
	i := k.rnd.IntN(len(k.net))
	what := k.net[i]
	k.net = slices.Delete(k.net, i, i+1)
	what()
}

// end ends an ID with an event, if the ID is in one of the states.
func (k *modelKernel) end(id *modelID, typ EventType, status int, in ...modelState) {
	if slices.Contains(in, id.state) && !id.gone {
		k.to(id, modelEnded)
		k.tell(id, typ, status)
	}
}

// destroy implements DESTROY_ID. It drops the ID's unfetched events, and destroys the new IDs
// of the connect requests in them.
func (k *modelKernel) destroy(id *modelID) {
	k.hangUp(id)
	id.gone = true
	delete(k.ids, id.kid)
	for num, g := range k.groups {
		if g.id == id {
			delete(k.groups, num)
		}
	}
	for _, ev := range id.file.drop(func(ev modelEvent) bool { return ev.move.id == id }) {
		if ev.child != nil {
			k.destroy(ev.child)
		}
	}
}

// hangUp informs the peer that an ID is destroyed or that its device is removed.
func (k *modelKernel) hangUp(id *modelID) {
	switch id.state {
	case modelReqSent:
		k.reject(id, RejectTimeout)
	case modelReqRcvd, modelRepSent, modelRepRcvd:
		k.reject(id, RejectConsumer)
	case modelEstablished:
		k.disconnect(id)
	}
}

// write executes a command and returns the result that Linux would return.
func (k *modelKernel) write(f *modelFile, cmd uint32, b []byte) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.commands++
	if cmd == abi.RDMA_USER_CM_CMD_CREATE_ID {
		id := k.create(f, binary.NativeEndian.Uint64(b[8:]))
		id.ud = binary.NativeEndian.Uint16(b[24:]) == abi.RDMA_PS_UDP
		*(*uint32)(pointerAt(b, 16)) = id.kid
		return nil
	}
	num := binary.NativeEndian.Uint32(b[8+idOffset[cmd]:])
	if cmd == abi.RDMA_USER_CM_CMD_LEAVE_MCAST {
		return k.leave(f, num)
	}
	id, owner := k.ids[num], f
	defer func() {
		if err != nil {
			k.refused = append(k.refused, refusal{id, err})
		}
	}()
	if cmd == abi.RDMA_USER_CM_CMD_MIGRATE_ID {
		owner = k.files[binary.NativeEndian.Uint32(b[20:])]
	}
	switch {
	case id == nil:
		return syscall.ENOENT
	case id.file != owner:
		return syscall.EINVAL
	case cmd == abi.RDMA_USER_CM_CMD_DESTROY_ID:
		k.destroy(id)
		return nil
	case id.state == modelRemoved:
		return syscall.ENXIO
	case cmd == abi.RDMA_USER_CM_CMD_MIGRATE_ID:
		k.migrate(id, f)
		return nil
	}
	turn := id.turn
	if err := k.command(cmd, id, b); err != nil {
		return err
	}
	if id.turn != turn && cmd != abi.RDMA_USER_CM_CMD_NOTIFY { // an event reports the change
		k.moves = append(k.moves, modelMove{id, id.state, id.turn})
	}
	return nil
}

// command executes a command on an ID whose device is present, and returns the result that
// Linux would return.
func (k *modelKernel) command(cmd uint32, id *modelID, b []byte) error {
	in := func(states ...modelState) bool { return slices.Contains(states, id.state) }
	switch {
	case cmd == abi.RDMA_USER_CM_CMD_QUERY:
		if id.dev != noDevice {
			r := (*abi.UcmQueryAddrResp)(pointerAt(b, 8))
			r.PortNum, r.IBDevIndex = 1, uint32(id.dev)
		}
	case cmd == abi.RDMA_USER_CM_CMD_BIND && in(modelIdle):
		return k.bind(id, abi.View[abi.UcmBind](b[8:]).Addr)
	case cmd == abi.RDMA_USER_CM_CMD_RESOLVE_ADDR && in(modelIdle, modelBound):
		k.resolveAddr(id)
	case cmd == abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE && in(modelAddrResolved):
		k.resolveRoute(id)
	case cmd == abi.RDMA_USER_CM_CMD_LISTEN && in(modelIdle, modelBound):
		k.to(id, modelListening)
	case cmd == abi.RDMA_USER_CM_CMD_INIT_QP_ATTR && id.dev != noDevice:
		return k.initQPAttr(id, (*abi.UverbsQPAttr)(pointerAt(b, 8)), verbs.QPState(binary.NativeEndian.Uint32(b[20:])))
	case cmd == abi.RDMA_USER_CM_CMD_JOIN_MCAST && in(modelBound, modelAddrResolved) && id.ud && id.dev != noDevice:
		k.join(id, abi.View[abi.UcmJoinMcast](b[8:]), (*uint32)(pointerAt(b, 8)))
	case id.ud:
		return k.datagramCommand(cmd, id, b)
	default:
		return k.connectionCommand(cmd, id, b)
	}
	return nil
}

// initQPAttr implements INIT_QP_ATTR. A datagram ID has attributes only for INIT.
func (k *modelKernel) initQPAttr(id *modelID, r *abi.UverbsQPAttr, state verbs.QPState) error {
	connecting := slices.Contains([]modelState{modelReqRcvd, modelRepSent, modelRepRcvd, modelEstablished}, id.state)
	if state != verbs.QPInit && (id.ud || !connecting) || !id.ud && id.state == modelEnded {
		return syscall.EINVAL
	}
	r.QPState = uint32(state)
	r.QPAttrMask = uint32(verbs.QPAttrState | attrsOf[state])
	r.PortNum, r.AHAttr.PortNum = 1, 1
	if id.ud {
		r.QPAttrMask = uint32(verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrQKey)
	}
	return nil
}
