// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"fmt"
	"strconv"

	"purerdma/abi"
	"purerdma/verbs"
)

// None is an explicit zero in a ConnParam: no READs and atomics in that direction, or no
// retries. The zero value of a field means its default.
const None = -1

// defaultRetryCount is the largest retry count that is finite on every device: rxe retries
// without end with a count of 7.
const defaultRetryCount = 6

// maxDepth is the largest depth that a connect message has room for.
const maxDepth = 0xFF

// maxRetry is the largest value of the three bits of a retry count.
const maxRetry = 7

// ConnParam holds the parameters of a connection that a side sends when it connects or
// accepts, or that its peer sent (struct rdma_conn_param, rdma_cma.h; rdma_connect(3),
// rdma_accept(3)). To connect and to accept, a field that is 0 means its default, None means
// zero, and nil stands for &ConnParam{}.
//
// The parameters of an event hold the peer's numbers, where 0 is zero and None does not occur.
// Their depths are from the receiver's point of view, as in [PeerParam]. They can be used to
// accept: a depth of 0 then remains 0, because the default is at most the depth of the request.
// An RNRRetryCount of 0 becomes the default.
type ConnParam struct {
	// PrivateData goes to the peer. How much fits into a message depends on the
	// call and the transport:
	//
	//	                                connect  accept  reject
	//	IB and RoCE, connections             56     196     148
	//	  with AF_IB addresses               92     196     148
	//	IB and RoCE, datagrams              180     136     136
	//	  with AF_IB addresses              216     136     136
	//	iWARP                               251     251     251
	//
	// On InfiniBand and RoCE the peer always gets the whole size, zeros after
	// what was given, and on iWARP just what was given. In an event it is what was
	// received, the zeros included, nil if nothing. A rejection that holds only zeros
	// counts as one without private data.
	PrivateData []byte
	// ResponderResources is the number of RDMA READs and atomics of the peer that the
	// local side serves at a time: at most the device's MaxQPRdAtom, and at most 255. 0 means
	// as many as the device can serve, and when accepting at most as many as the request asks
	// for. None refuses them.
	ResponderResources int
	// InitiatorDepth is the number of RDMA READs and atomics that the local side has
	// outstanding: at most the device's MaxQPInitRdAtom, at most 255, and when accepting at
	// most that of the request. 0 means as many as these allow. None means no READs and
	// atomics: posting one fails with verbs.ErrNoReads.
	InitiatorDepth int
	// FlowControl says whether hardware flow control is available. It is passed
	// to the peer and configures nothing.
	FlowControl bool
	// RetryCount is how often the transport repeats an unanswered send, READ or
	// atomic: at most 7. 0 means 6, None no retries. rxe takes 7 for retries without end, and
	// then never reports a peer that has vanished. RetryCount is ignored when accepting: both
	// sides use the connecting side's. Of the events only a CONNECT_REQUEST has it.
	RetryCount int
	// RNRRetryCount is how often the peer repeats a send that found no posted
	// receive: at most 7, which means without end. 0 means 7, None no retries.
	RNRRetryCount int
	// SRQ says that the QP uses a shared receive queue. It is ignored if the ID
	// has a QP.
	SRQ bool
	// QPNum is the local QP's number, 24 bits. It is ignored if the ID has a
	// QP. In an event it is the peer's.
	QPNum uint32
}

// PeerParam holds the parameters of a connection that its peer sent. Their directions are those
// of this side.
type PeerParam struct {
	// PrivateData has the size of the message on InfiniBand and RoCE, with zeros after the
	// peer's bytes: see [ConnParam].
	PrivateData []byte
	// IncomingReads is the number of RDMA READs and atomics that the peer may have outstanding
	// at this side. It is the largest useful ResponderResources.
	IncomingReads int
	// OutgoingReads is the number of RDMA READs and atomics of this side that the peer serves
	// at a time. It is the largest possible InitiatorDepth.
	OutgoingReads int
	FlowControl   bool // the peer's hardware has flow control
	RetryCount    int  // of both sides' QPs; only in a request
	RNRRetryCount int  // of this side's QP
	SRQ           bool // the peer's QP has a shared receive queue
	QPNum         uint32
}

// asPeer returns the parameters of an event under the names of a PeerParam.
func (p *ConnParam) asPeer() PeerParam {
	return PeerParam{
		PrivateData:   p.PrivateData,
		IncomingReads: p.ResponderResources,
		OutgoingReads: p.InitiatorDepth,
		FlowControl:   p.FlowControl,
		RetryCount:    p.RetryCount,
		RNRRetryCount: p.RNRRetryCount,
		SRQ:           p.SRQ,
		QPNum:         p.QPNum,
	}
}

// complete checks p against the manual's limits and those of the device, and returns it with
// the numbers that the kernel is given instead of the defaults and None. request has the depths
// that the peer asked for, nil when connecting. The kernel does not check the numbers: it would pass
// them on, and a failing ACCEPT has rejected the peer already.
//
// For datagrams only the private data and the QP number count.
func (p *ConnParam) complete(attr *verbs.DeviceAttr, request *depths, datagram bool) (ConnParam, error) {
	var out ConnParam
	if p != nil {
		out = *p
	}
	if out.QPNum > 1<<24-1 {
		return out, &ArgumentError{Name: "QPNum", Value: out.QPNum, Max: 1<<24 - 1, Reason: "it has 24 bits"}
	}
	if datagram {
		return ConnParam{PrivateData: out.PrivateData, QPNum: out.QPNum}, nil
	}
	responder := paramLimit{most: min(attr.MaxQPRdAtom, maxDepth), why: "the device's max_qp_rd_atom"}
	initiator := paramLimit{most: min(attr.MaxQPInitRdAtom, maxDepth), why: "the device's max_qp_init_rd_atom"}
	responder.zero, initiator.zero = responder.most, initiator.most
	if request != nil {
		responder.zero = min(responder.most, int(request.responder))
		if asked := int(request.initiator); asked < initiator.most {
			initiator.most, initiator.why = asked, "the peer serves no more"
		}
		initiator.zero = initiator.most
	}
	err := responder.apply("ResponderResources", &out.ResponderResources)
	if err == nil {
		err = initiator.apply("InitiatorDepth", &out.InitiatorDepth)
	}
	if err == nil {
		err = retryLimit.apply("RetryCount", &out.RetryCount)
	}
	if err == nil {
		err = rnrRetryLimit.apply("RNRRetryCount", &out.RNRRetryCount)
	}
	return out, err
}

// depths has ResponderResources and InitiatorDepth of a connect request's ConnParam.
type depths struct{ responder, initiator uint8 }

// paramLimit is the default of a field of ConnParam, and its largest value.
type paramLimit struct {
	zero, most int
	why        string // the origin of most
}

var (
	retryLimit    = paramLimit{zero: defaultRetryCount, most: maxRetry, why: "it has three bits"}
	rnrRetryLimit = paramLimit{zero: maxRetry, most: maxRetry, why: "it has three bits"}
)

// apply replaces 0 and None by their numbers, and refuses values that are out of range.
func (l paramLimit) apply(field string, value *int) error {
	switch v := *value; {
	case v == 0:
		*value = l.zero
	case v == None:
		*value = 0
	case v < 0 || v > l.most:
		return &ArgumentError{Name: field, Value: v, Max: l.most, Reason: l.why}
	}
	return nil
}

// toKernel writes the parameters to k, which is zero.
func (p *ConnParam) toKernel(k *abi.UcmConnParam) {
	k.QPNum = p.QPNum
	k.SRQ = flag(p.SRQ)
	k.ResponderResources = uint8(p.ResponderResources)
	k.InitiatorDepth = uint8(p.InitiatorDepth)
	k.FlowControl = flag(p.FlowControl)
	k.RetryCount = uint8(p.RetryCount)
	k.RNRRetryCount = uint8(p.RNRRetryCount)
	k.PrivateDataLen = uint8(copy(k.PrivateData[:], p.PrivateData))
}

func connParamFromKernel(k *abi.UcmConnParam) ConnParam {
	p := ConnParam{
		ResponderResources: int(k.ResponderResources),
		InitiatorDepth:     int(k.InitiatorDepth),
		FlowControl:        k.FlowControl != 0,
		RetryCount:         int(k.RetryCount),
		RNRRetryCount:      int(k.RNRRetryCount),
		SRQ:                k.SRQ != 0,
		QPNum:              k.QPNum,
	}
	if k.PrivateDataLen > 0 {
		p.PrivateData = append([]byte(nil), k.PrivateData[:k.PrivateDataLen]...)
	}
	return p
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// ipHeader is what the kernel puts before the private data of a request between
// IP addresses: ports and addresses, for the listener's side of the kernel.
const ipHeader = 36

// privateDataLimit returns how many bytes of private data a call can carry, and
// why: on InfiniBand the sizes of the CM's messages (IBTA specification, volume 1,
// 12.6 and 12.11).
func privateDataLimit(op string, transport verbs.Transport, datagram, afIB bool) (limit int, why string) {
	if transport == verbs.TransportIWARP {
		// The frame has room for 512, the kernel's interface for 255; siw adds
		// 4 in eight bits.
		return 251, "more does not get through the kernel's iWARP drivers"
	}
	switch {
	case op == opConnect && datagram:
		limit, why = 216, "the CM's SIDR_REQ message"
	case op == opConnect:
		limit, why = 92, "the CM's REQ message"
	case datagram:
		return 136, "the CM's SIDR_REP message"
	case op == opReject:
		return 148, "the CM's REJ message"
	default:
		return 196, "the CM's REP message"
	}
	if !afIB {
		limit -= ipHeader
		why += fmt.Sprintf(", less %d bytes for the IP addresses", ipHeader)
	}
	return limit, why
}

// checkPrivateData checks a length before the kernel sees it: there, an accept
// that fails has refused the peer.
func (id *ID) checkPrivateData(op string, b []byte) error {
	limit, why := privateDataLimit(op, id.transport(), id.datagram(), id.LocalAddr().isIB())
	if len(b) > limit {
		return id.opError(op, &ArgumentError{Name: "len(PrivateData)", Value: len(b), Max: limit, Reason: why})
	}
	return nil
}

// checkParam is checkPrivateData for parameters that may be nil.
func (id *ID) checkParam(op string, param *ConnParam) error {
	if param == nil {
		return nil
	}
	return id.checkPrivateData(op, param.PrivateData)
}

// refusalData returns the private data of a refusal, nil if the peer gave none. The
// messages of InfiniBand and RoCE have no length field: the kernel hands out the
// whole field. One that holds only zeros is taken for an absent one.
func refusalData(transport verbs.Transport, field []byte) []byte {
	if transport != verbs.TransportIWARP && len(bytes.TrimRight(field, "\x00")) == 0 {
		return nil
	}
	return field
}

// maxQuoted is how many bytes of a peer's private data an error text shows.
const maxQuoted = 80

// quoteData returns private data for the end of an error text: quoted, in ASCII,
// without the zeros that fill the message, and cut to maxQuoted bytes. It returns ""
// if there is none.
func quoteData(b []byte) string {
	b = bytes.TrimRight(b, "\x00")
	switch {
	case len(b) == 0:
		return ""
	case len(b) > maxQuoted:
		return ": " + strconv.QuoteToASCII(string(b[:maxQuoted])) + "..."
	}
	return ": " + strconv.QuoteToASCII(string(b))
}
