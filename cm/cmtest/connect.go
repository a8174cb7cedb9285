// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"net/netip"
	"syscall"

	"purerdma/abi"
)

// Reasons that the connection manager sets in a REJ (IBTA specification, volume 1, 12.6.7.2).
const (
	rejTimeout          = 4
	rejInvalidServiceID = 8
	rejConsumer         = 28
	rejVendorOption     = 35
)

// Private data of the messages between IP addresses, in bytes. The peer always gets all of it,
// filled up with zeros.
const (
	dataREQ     = 56
	dataREP     = 196
	dataREJ     = 148
	dataSIDRREQ = 180
	dataSIDRREP = 136
)

// connect implements CONNECT.
func (k *Kernel) connect(id *id, c *abi.UcmConnect) error {
	limit := uint8(dataREQ)
	if id.datagram() {
		limit = dataSIDRREQ
	}
	if id.state != routeResolved || c.ConnParam.Valid == 0 || c.ConnParam.PrivateDataLen > limit {
		return syscall.EINVAL
	}
	ece := c.ECE // the program may reuse the command's memory after the call
	id.own, id.active = c.ConnParam, true
	id.responder, id.initiator = c.ConnParam.ResponderResources, c.ConnParam.InitiatorDepth
	k.to(id, reqSent)
	k.send(id, id.message(REQ), func() bool { return k.request(id, ece) }, func() {
		k.end(id, abi.RDMA_CM_EVENT_UNREACHABLE, -int(syscall.ETIMEDOUT), nil, reqSent)
	})
	return nil
}

// request handles the arrival of a REQ, or of a SIDR_REQ. It returns false if the message is
// dropped, because no reachable device has the address, or because the listener's backlog is
// full.
func (k *Kernel) request(from *id, ece abi.UcmECE) bool {
	if from.gone || from.state != reqSent {
		return true
	}
	dev := k.with(from.remote.Addr())
	if dev == nil || dev.unplugged {
		return false
	}
	l := k.listener(from)
	switch {
	case l == nil && from.datagram():
		k.end(from, abi.RDMA_CM_EVENT_UNREACHABLE, sidrNoService, k.datagramParam(from, nil), reqSent)
		return true
	case l == nil:
		k.end(from, abi.RDMA_CM_EVENT_REJECTED, rejInvalidServiceID, connParam(dataREJ, nil), reqSent)
		return true
	case l.pending >= l.backlog:
		return false
	}
	child := k.create(l.file, 0, l.space)
	child.state, child.dev, child.peer, from.peer = reqReceived, dev, from, child
	child.local, child.remote = withoutZone(from.remote), withoutZone(from.local)
	l.pending++
	ev := event{resp: abi.UcmEventResp{UID: l.uid, ID: child.num, Event: abi.RDMA_CM_EVENT_CONNECT_REQUEST, ECE: ece}, id: l, child: child}
	data := from.own.PrivateData[:from.own.PrivateDataLen]
	if from.datagram() {
		ud := abi.UcmUDParam{PrivateDataLen: dataSIDRREQ}
		copy(ud.PrivateData[:], data)
		copy(ev.resp.Param[:], abi.Bytes(&ud))
	} else {
		child.take(&from.own)
		if child.theirs.PrivateDataLen = dataREQ; k.iwarp(child) != nil {
			child.theirs.PrivateDataLen = from.own.PrivateDataLen
		}
		copy(ev.resp.Param[:], abi.Bytes(&child.theirs))
	}
	k.queue(ev)
	return true
}

// withoutZone returns an address as a request carries it (cma_save_ip6_info).
func withoutZone(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().WithZone(""), a.Port())
}

// take stores the parameters of the peer's REQ or REP. The receiver's depths are the sender's
// depths, swapped.
func (id *id) take(p *abi.UcmConnParam) {
	id.theirs = *p
	id.theirs.ResponderResources, id.theirs.InitiatorDepth = p.InitiatorDepth, p.ResponderResources
	id.theirs.Valid, id.theirs.QKey = 0, 0
	id.responder, id.initiator = id.theirs.ResponderResources, id.theirs.InitiatorDepth
}

// listener returns the ID that listens on the destination address of from. It returns nil if
// there is none. A listener on the exact address takes precedence over a listener on the
// unspecified address.
func (k *Kernel) listener(from *id) (l *id) {
	for _, o := range k.sorted() {
		if o.state != listening || o.space != from.space || o.local.Port() != from.remote.Port() {
			continue
		}
		switch a := o.local.Addr(); {
		case a.Unmap().WithZone("") == from.remote.Addr().Unmap().WithZone(""):
			return o
		case a.IsUnspecified() && (a.Is6() || from.remote.Addr().Unmap().Is4()):
			l = o
		}
	}
	return l
}

// accept implements ACCEPT, which answers a request. Without parameters, ACCEPT sends the RTU.
// A failed ACCEPT has already rejected the peer.
func (k *Kernel) accept(id *id, c *abi.UcmAccept) error {
	switch {
	case id.datagram():
		return k.answerDatagram(id, c)
	case c.ConnParam.Valid == 0:
		return k.confirm(id)
	case id.state != reqReceived || c.ConnParam.PrivateDataLen > dataREP:
		if id.in(reqSent, reqReceived, repSent, repReceived) {
			k.sendREJ(id, rejConsumer, nil, 1)
			k.to(id, ended)
		}
		return syscall.EINVAL
	}
	id.uid, id.own = c.UID, c.ConnParam
	id.responder, id.initiator = c.ConnParam.ResponderResources, c.ConnParam.InitiatorDepth
	k.to(id, repSent)
	peer, param, ece := id.peer, c.ConnParam, c.ECE
	k.send(id, id.message(REP), func() bool {
		if !peer.gone && peer.state == reqSent {
			peer.take(&param)
			peer.theirs.RetryCount, peer.theirs.PrivateDataLen = 0, dataREP
			if qps := k.iwarp(peer); qps != nil {
				k.establish(qps, id, peer)
				return true
			}
			k.to(peer, repReceived)
			k.tellECE(peer, abi.RDMA_CM_EVENT_CONNECT_RESPONSE, ece, abi.Bytes(&peer.theirs))
		}
		return true
	}, func() { k.end(id, abi.RDMA_CM_EVENT_UNREACHABLE, -int(syscall.ETIMEDOUT), nil, repSent) })
	return nil
}

// tellECE queues an event with the peer's ECE options for an ID.
func (k *Kernel) tellECE(id *id, typ uint32, ece abi.UcmECE, param []byte) {
	if id.gone || id.uid == 0 {
		return
	}
	ev := event{resp: abi.UcmEventResp{UID: id.uid, ID: id.num, Event: typ, ECE: ece}, id: id}
	copy(ev.resp.Param[:], param)
	k.queue(ev)
}

// confirm sends the RTU.
func (k *Kernel) confirm(id *id) error {
	if id.state != repReceived {
		if id.in(reqSent, reqReceived, repSent) {
			k.sendREJ(id, rejConsumer, nil, 1)
			k.to(id, ended)
		}
		return syscall.EINVAL
	}
	k.to(id, established)
	peer := id.peer
	k.send(id, id.message(RTU), func() bool {
		if !peer.gone && peer.state == repSent {
			k.to(peer, established)
			k.tell(peer, abi.RDMA_CM_EVENT_ESTABLISHED, 0)
		}
		return true
	}, func() { k.end(peer, abi.RDMA_CM_EVENT_UNREACHABLE, -int(syscall.ETIMEDOUT), nil, repSent) })
	return nil
}

// reject implements REJECT.
func (k *Kernel) reject(id *id, c *abi.UcmReject) error {
	data := c.PrivateData[:c.PrivateDataLen]
	if id.datagram() {
		return k.rejectDatagram(id, data)
	}
	reason := int(c.Reason)
	if reason == 0 {
		reason = rejConsumer
	}
	if reason != rejConsumer && reason != rejVendorOption || !id.in(reqSent, reqReceived, repSent, repReceived) || len(data) > dataREJ {
		return syscall.EINVAL
	}
	k.sendREJ(id, reason, data, attempts)
	k.to(id, ended)
	return nil
}

// sendREJ sends a rejection to the peer.
func (k *Kernel) sendREJ(id *id, reason int, data []byte, tries int) {
	peer := id.peer
	if peer == nil {
		return
	}
	param := connParam(dataREJ, data)
	k.transmit(id.message(REJ), tries, func() bool { return true }, func() bool {
		k.end(peer, abi.RDMA_CM_EVENT_REJECTED, reason, param, reqSent, reqReceived, repSent, repReceived, established)
		return true
	}, func() { k.end(peer, abi.RDMA_CM_EVENT_UNREACHABLE, -int(syscall.ETIMEDOUT), nil, reqSent, repSent) })
}

// connParam returns the parameters of an event that has private data only.
func connParam(size uint8, data []byte) []byte {
	p := abi.UcmConnParam{PrivateDataLen: size}
	copy(p.PrivateData[:], data)
	return abi.Bytes(&p)
}

// disconnect implements DISCONNECT. It starts the end of a connection, or answers the peer's
// DREQ. Like Linux, it returns 0 if neither message can be sent.
func (k *Kernel) disconnect(id *id) error {
	switch {
	case id.in(idle, bound, addrQuery, addrResolved, routeResolved, listening):
		return syscall.EINVAL
	case id.datagram():
	case id.state == established && k.iwarp(id) != nil:
		k.closeStream(k.iwarp(id), id)
	case id.state == established:
		k.to(id, dreqSent)
		k.sendDREQ(id, attempts)
	case id.state == dreqReceived:
		k.to(id, ended)
		k.sendDREP(id)
	}
	return nil
}

// sendDREQ sends the peer a disconnect request.
func (k *Kernel) sendDREQ(id *id, tries int) {
	peer := id.peer
	current := id.current()
	k.transmit(id.message(DREQ), tries, current, func() bool {
		switch {
		case peer.gone || peer.in(ended, removed):
			k.sendDREP(peer) // Linux also answers for a connection that has ended
		case peer.in(repSent, repReceived, established, dreqSent):
			k.end(peer, abi.RDMA_CM_EVENT_DISCONNECTED, 0, nil, peer.state)
			peer.state = dreqReceived
		}
		return true
	}, func() { k.end(id, abi.RDMA_CM_EVENT_DISCONNECTED, -int(syscall.ETIMEDOUT), nil, dreqSent) })
}

// sendDREP confirms the end of the connection.
func (k *Kernel) sendDREP(id *id) {
	peer := id.peer
	k.transmit(id.message(DREP), attempts, peer.current(), func() bool {
		k.end(peer, abi.RDMA_CM_EVENT_DISCONNECTED, 0, nil, dreqSent)
		return true
	}, func() { k.end(peer, abi.RDMA_CM_EVENT_DISCONNECTED, -int(syscall.ETIMEDOUT), nil, dreqSent) })
}

// hangUp informs the peer that an ID is destroyed or that its device is removed.
func (k *Kernel) hangUp(id *id) {
	switch {
	case id.peer == nil:
	case id.datagram():
		if id.state == reqReceived {
			k.sendSIDR(id, abi.RDMA_CM_EVENT_UNREACHABLE, sidrReject, k.datagramParam(id, nil))
		}
	case id.state == reqSent:
		k.sendREJ(id, rejTimeout, nil, 1)
	case id.in(reqReceived, repSent, repReceived):
		k.sendREJ(id, rejConsumer, nil, 1)
	case id.state == established && k.iwarp(id) != nil:
		k.closeStream(k.iwarp(id), id)
	case id.state == established:
		k.sendDREQ(id, 1)
	case id.state == dreqReceived:
		k.sendDREP(id)
	}
}

// end ends an ID with an event, if the ID is in one of the states.
func (k *Kernel) end(id *id, typ uint32, status int, param []byte, in ...state) {
	if id.in(in...) && !id.gone {
		k.to(id, ended)
		k.tell(id, typ, status, param)
	}
}
