// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"fmt"
	"strconv"

	"purerdma/abi"
	"purerdma/verbs"
)

// None is an explicit zero in a ConnParam. It means no READs and atomics in that direction, or
// no retries. The zero value of a field means its default.
const None = -1

// defaultRetryCount is the largest retry count that is finite on every device. With a count of
// 7, rxe retries without end.
const defaultRetryCount = 6

// maxDepth is the largest depth that fits into a connect message.
const maxDepth = 0xFF

// maxRetry is the largest value of the three bits of a retry count.
const maxRetry = 7

// ConnParam holds the parameters of a connection that a side sends when it connects or
// accepts, or that its peer sent (struct rdma_conn_param, rdma_cma.h; rdma_connect(3),
// rdma_accept(3)). When connecting and accepting, a field that is 0 means its default, None
// means zero, and a nil ConnParam means &ConnParam{}.
//
// The parameters of an event hold the peer's numbers. In them 0 is zero, and None does not
// occur. Their depths are from the receiver's point of view, as in [PeerParam]. They can be
// used to accept. A depth of 0 then remains 0, because the default is at most the depth of the
// request. An RNRRetryCount of 0 becomes the default.
type ConnParam struct {
	// PrivateData goes to the peer. The call and the transport determine its largest length in
	// bytes:
	//
	//	                                connect  accept  reject
	//	IB and RoCE, connections             56     196     148
	//	  with AF_IB addresses               92     196     148
	//	IB and RoCE, datagrams              180     136     136
	//	  with AF_IB addresses              216     136     136
	//	iWARP                               251     251     251
	//
	// On InfiniBand and RoCE the peer always gets the whole size, with zeros after the
	// sender's bytes. On iWARP it gets exactly the sender's bytes. In an event PrivateData
	// holds the received bytes, including the zeros, or nil if there are no bytes. On
	// InfiniBand and RoCE, a rejection that holds only zeros counts as a rejection without
	// private data.
	PrivateData []byte
	// ResponderResources is the number of RDMA READs and atomics of the peer that the local
	// side serves at a time. It is at most the device's MaxQPRdAtom, and at most 255. 0 means
	// as many as the device can serve, and when accepting at most the number in the request.
	// None refuses them.
	ResponderResources int
	// InitiatorDepth is the number of RDMA READs and atomics that the local side has
	// outstanding. It is at most the device's MaxQPInitRdAtom, at most 255, and when accepting
	// at most the depth of the request. 0 means as many as these limits allow. None means no
	// READs and atomics. Posting a READ or an atomic then fails with verbs.ErrNoReads.
	InitiatorDepth int
	// FlowControl reports whether hardware flow control is available. It is passed to the peer
	// and configures nothing.
	FlowControl bool
	// RetryCount is the number of times that the transport repeats an unanswered send, READ or
	// atomic. It is at most 7. 0 means 6, and None means no retries. rxe takes 7 for retries
	// without end, and then never reports a peer that has vanished. RetryCount is ignored when
	// accepting, because both sides use the count of the connecting side. Only the parameters
	// of a CONNECT_REQUEST event have it.
	RetryCount int
	// RNRRetryCount is the number of times that the peer repeats a send that found no posted
	// receive. It is at most 7, which means without end. 0 means 7, and None means no retries.
	RNRRetryCount int
	// SRQ reports whether the QP uses a shared receive queue. It is ignored if the ID has a
	// QP.
	SRQ bool
	// QPNum is the local QP's number, 24 bits. It is ignored if the ID has a QP. In an event
	// it is the number of the peer's QP.
	QPNum uint32
}

// PeerParam holds the parameters of a connection that its peer sent. Incoming and outgoing are
// from the point of view of this side.
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
	RetryCount    int  // of both sides' QPs, only set in a request
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

// complete checks p against the limits of the manual and of the device. It returns p with the
// numbers for the kernel in place of the defaults and None. request has the depths that the
// peer requested, and is nil when connecting. The kernel does not check the numbers but passes
// them on, and a failed ACCEPT has already rejected the peer.
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

// depths holds ResponderResources and InitiatorDepth of a connect request's ConnParam.
type depths struct{ responder, initiator uint8 }

// paramLimit holds the default of a field of ConnParam and its largest value.
type paramLimit struct {
	zero, most int
	why        string // the origin of most
}

var (
	retryLimit    = paramLimit{zero: defaultRetryCount, most: maxRetry, why: "it has three bits"}
	rnrRetryLimit = paramLimit{zero: maxRetry, most: maxRetry, why: "it has three bits"}
)

// apply replaces 0 and None by their numbers, and returns an error for a value that is out of
// range.
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

// toKernel writes the parameters to k, which must be zero.
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

// ipHeader is the size of the header that the kernel puts before the private data of a request
// between IP addresses. The header carries ports and addresses for the kernel on the
// listener's side.
const ipHeader = 36

// privateDataLimit returns the largest number of bytes of private data that a call can carry,
// and the reason for this limit. On InfiniBand the sizes of the CM's messages determine it
// (IBTA specification, volume 1, 12.6 and 12.11).
func privateDataLimit(op string, transport verbs.Transport, datagram, afIB bool) (limit int, why string) {
	if transport == verbs.TransportIWARP {
		// The frame has room for 512 bytes, and the kernel's interface for 255. siw adds 4 to
		// the length in an eight-bit number.
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

// checkPrivateData checks a length before the kernel receives it. An accept that fails in the
// kernel has already rejected the peer.
func (id *ID) checkPrivateData(op string, b []byte) error {
	limit, why := privateDataLimit(op, id.transport(), id.datagram(), id.LocalAddr().isIB())
	if len(b) > limit {
		return id.opError(op, &ArgumentError{Name: "len(PrivateData)", Value: len(b), Max: limit, Reason: why})
	}
	return nil
}

// checkParam does the work of checkPrivateData for parameters that may be nil.
func (id *ID) checkParam(op string, param *ConnParam) error {
	if param == nil {
		return nil
	}
	return id.checkPrivateData(op, param.PrivateData)
}

// refusalData returns the private data of a rejection, or nil if the peer sent none. The
// messages of InfiniBand and RoCE have no length field, so the kernel returns the whole field.
// A field that holds only zeros counts as absent.
func refusalData(transport verbs.Transport, field []byte) []byte {
	if transport != verbs.TransportIWARP && len(bytes.TrimRight(field, "\x00")) == 0 {
		return nil
	}
	return field
}

// maxQuoted is the largest number of bytes of a peer's private data in an error text.
const maxQuoted = 80

// quoteData returns private data for the end of an error text. The data is quoted, in ASCII,
// without the zeros that fill the message, and cut to maxQuoted bytes. quoteData returns "" if
// there is no data.
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
