// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"syscall"

	"purerdma/abi"
	"purerdma/verbs"
)

// MaxDepth as ResponderResources or InitiatorDepth means as many as the device
// can (RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH of rdma_cma.h). A listener takes as
// many as the request asks for and the device can.
const MaxDepth = 0xFF

// maxRetry is the largest value of the three bits of a retry count.
const maxRetry = 7

// ConnParam holds the parameters of a connection: what a side sends when it
// connects or accepts, and what an event says that the peer sent
// (struct rdma_conn_param, rdma_cma.h; rdma_connect(3), rdma_accept(3)).
//
// Depths of an event are from the receiver's point of view: they can be used as
// they are to accept.
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
	// ResponderResources is how many RDMA READs and atomics of the peer the
	// local side serves at a time: at most the device's MaxQPRdAtom, or MaxDepth.
	ResponderResources uint8
	// InitiatorDepth is how many RDMA READs and atomics the local side has
	// outstanding: at most the device's MaxQPInitRdAtom, when accepting at most
	// that of the request, or MaxDepth.
	InitiatorDepth uint8
	// FlowControl says whether hardware flow control is available. It is passed
	// to the peer and configures nothing.
	FlowControl bool
	// RetryCount is how often the transport repeats an unanswered send, READ or
	// atomic: 0 to 7. It is ignored when accepting: both sides use the
	// connecting side's. In events only a CONNECT_REQUEST has it.
	RetryCount uint8
	// RNRRetryCount is how often the peer repeats a send that found no posted
	// receive: 0 to 6, 7 for ever.
	RNRRetryCount uint8
	// SRQ says that the QP uses a shared receive queue. It is ignored if the ID
	// has a QP.
	SRQ bool
	// QPNum is the local QP's number, 24 bits. It is ignored if the ID has a
	// QP. In an event it is the peer's.
	QPNum uint32
}

// DefaultConnParam returns what a nil ConnParam stands for when connecting: the
// device's largest depths, and retries without end for a peer that has no
// receive posted. It has a RetryCount of 7, which rxe takes for retries without end,
// too: give 6, or bound the wait, where a peer may vanish.
func DefaultConnParam() ConnParam {
	return ConnParam{
		ResponderResources: MaxDepth,
		InitiatorDepth:     MaxDepth,
		RetryCount:         maxRetry,
		RNRRetryCount:      maxRetry,
	}
}

// complete checks p against the manual's limits and those of the device, and
// replaces nil and MaxDepth. request is what the peer asked for, nil when
// connecting. The kernel checks nothing of this: it would pass the numbers on,
// and a failing ACCEPT has rejected the peer already.
//
// For datagrams only the private data and the QP number count.
func (p *ConnParam) complete(attr *verbs.DeviceAttr, request *ConnParam, datagram bool) (ConnParam, error) {
	out := DefaultConnParam()
	if p != nil {
		out = *p
	}
	if out.QPNum > 1<<24-1 {
		return out, &ParamError{Field: "QPNum", Value: int(out.QPNum), Max: 1<<24 - 1, Why: "it has 24 bits"}
	}
	if datagram {
		return ConnParam{PrivateData: out.PrivateData, QPNum: out.QPNum}, nil
	}
	responder, initiator := min(attr.MaxQPRdAtom, MaxDepth), min(attr.MaxQPInitRdAtom, MaxDepth)
	if err := checkDepth("ResponderResources", out.ResponderResources, responder, "max_qp_rd_atom"); err != nil {
		return out, err
	}
	if err := checkDepth("InitiatorDepth", out.InitiatorDepth, initiator, "max_qp_init_rd_atom"); err != nil {
		return out, err
	}
	if request != nil {
		if d := out.InitiatorDepth; d != MaxDepth && d > request.InitiatorDepth {
			return out, &ParamError{Field: "InitiatorDepth", Value: int(d), Max: int(request.InitiatorDepth), Why: "the peer serves no more"}
		}
		responder = min(responder, int(request.ResponderResources))
		initiator = min(initiator, int(request.InitiatorDepth))
	}
	if out.ResponderResources == MaxDepth {
		out.ResponderResources = uint8(responder)
	}
	if out.InitiatorDepth == MaxDepth {
		out.InitiatorDepth = uint8(initiator)
	}
	if out.RetryCount > maxRetry {
		return out, &ParamError{Field: "RetryCount", Value: int(out.RetryCount), Max: maxRetry, Why: "it has three bits"}
	}
	if out.RNRRetryCount > maxRetry {
		return out, &ParamError{Field: "RNRRetryCount", Value: int(out.RNRRetryCount), Max: maxRetry, Why: "it has three bits"}
	}
	return out, nil
}

func checkDepth(field string, value uint8, limit int, attr string) error {
	if value != MaxDepth && int(value) > limit {
		return &ParamError{Field: field, Value: int(value), Max: limit, Why: "the device's " + attr}
	}
	return nil
}

func (p *ConnParam) toKernel() abi.UcmConnParam {
	k := abi.UcmConnParam{
		QPNum:              p.QPNum,
		SRQ:                flag(p.SRQ),
		ResponderResources: p.ResponderResources,
		InitiatorDepth:     p.InitiatorDepth,
		FlowControl:        flag(p.FlowControl),
		RetryCount:         p.RetryCount,
		RNRRetryCount:      p.RNRRetryCount,
	}
	k.PrivateDataLen = uint8(copy(k.PrivateData[:], p.PrivateData))
	return k
}

func connParamFromKernel(k *abi.UcmConnParam) ConnParam {
	p := ConnParam{
		ResponderResources: k.ResponderResources,
		InitiatorDepth:     k.InitiatorDepth,
		FlowControl:        k.FlowControl != 0,
		RetryCount:         k.RetryCount,
		RNRRetryCount:      k.RNRRetryCount,
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

// ParamError says that a field of a ConnParam, or another argument of a call, is
// out of range. Nothing has happened. It wraps EINVAL.
type ParamError struct {
	Field      string
	Value, Max int
	Why        string // what sets the limit
}

func (e *ParamError) Error() string {
	return fmt.Sprintf("%s is %d, at most %d is possible: %s", e.Field, e.Value, e.Max, e.Why)
}

// Unwrap returns EINVAL.
func (e *ParamError) Unwrap() error { return syscall.EINVAL }
