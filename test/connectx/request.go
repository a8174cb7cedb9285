// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// maxMessage is the maximum size of one message, in bytes.
const maxMessage = 1 << 30

// request is a parsed send request.
type request struct {
	opcode     uint8
	imm        uint32
	solicited  bool
	srqn       uint32 // the peer's shared receive queue, for XRC.
	av         []byte // address vector or nil.
	addr       uint64
	rkey       uint32
	swapAdd    uint64
	compare    uint64
	segments   []byte   // memory segments, or for a UMR everything after the control segment.
	local      [][]byte // memory
	length     uint64
	inlineData bool
}

// operation describes the requests of an opcode.
type operation struct {
	remote, atomic, response bool // whether it has these segments, and response data
	services                 uint64
}

func on(services ...uint64) (mask uint64) {
	for _, s := range services {
		mask |= 1 << s
	}
	return mask
}

var (
	reliable = on(prm.ServiceRC, prm.ServiceXRC, prm.ServiceDCI)
	streams  = reliable | on(prm.ServiceUC)
	messages = streams | on(prm.ServiceUD, prm.ServiceQP1)
)

// operations lists the operations of transports by opcode.
var operations = map[uint8]operation{
	prm.WQENop:      {services: ^uint64(0)},
	prm.WQEUMR:      {services: streams | on(prm.ServiceRegU)},
	prm.WQESend:     {services: messages},
	prm.WQESendImm:  {services: messages},
	prm.WQESendInv:  {services: streams},
	prm.WQEWrite:    {services: streams, remote: true},
	prm.WQEWriteImm: {services: streams, remote: true},
	prm.WQERead:     {services: reliable, remote: true, response: true},
	prm.WQECompare:  {services: reliable, remote: true, response: true, atomic: true},
	prm.WQEFetchAdd: {services: reliable, remote: true, response: true, atomic: true},
}

// parse parses the work request w without resolving its memory. It returns the reason of a
// failure, or "".
func (r *request) parse(service uint64, w []byte) string {
	*r = request{
		opcode: uint8(prm.Ctrl.Opcode.Get(w)), imm: uint32(prm.Ctrl.Imm.Get(w)),
		solicited: prm.Ctrl.Solicited.Is(w), local: r.local[:0],
	}
	op, ok := operations[r.opcode]
	if !ok || op.services>>service&1 == 0 {
		return fmt.Sprintf("operation %#x of service %s", r.opcode, services[service])
	}
	rest := w[prm.Octoword:]
	short := false
	take := func(n int) []byte {
		if len(rest) < n {
			short = true
			return make([]byte, n)
		}
		seg := rest[:n]
		rest = rest[n:]
		return seg
	}
	if r.opcode == prm.WQENop || r.opcode == prm.WQEUMR {
		r.segments = rest
		return ""
	}
	switch service {
	case prm.ServiceXRC:
		r.srqn = uint32(prm.XRCSeg.SRQN.Get(take(prm.Octoword)))
	case prm.ServiceUD, prm.ServiceQP1, prm.ServiceDCI:
		if r.av = take(prm.AVLen); !short && !prm.AV.Extended.Is(r.av) {
			return "its address vector is not an extended one"
		}
	}
	if op.remote {
		seg := take(prm.Octoword)
		r.addr, r.rkey = prm.Raddr.Address.Get(seg), uint32(prm.Raddr.RKey.Get(seg))
	}
	if op.atomic {
		seg := take(prm.Octoword)
		r.swapAdd, r.compare = prm.AtomicSeg.SwapAdd.Get(seg), prm.AtomicSeg.Compare.Get(seg)
	}
	if short {
		return fmt.Sprintf("operation %#x in %d bytes", r.opcode, len(w))
	}
	r.segments = rest
	return ""
}

// gather resolves the memory of a request.
func (d *Device) gather(r *request, a access) (prm.Syndrome, error) {
	for s := r.segments; len(s) > 0; {
		n := prm.DataSeg.ByteCount.Get(s)
		if prm.DataSeg.Inline.Is(s) {
			if 4+n > uint64(len(s)) || operations[r.opcode].response {
				return prm.SyndromeLocalQPOp, fmt.Errorf("%d inline bytes in a segment of %d", n, len(s))
			}
			r.inlineData = true
			r.local = append(r.local, s[4:4+n])
			r.length += n
			s = s[min(uint64(len(s)), (4+n+prm.Octoword-1)&^(prm.Octoword-1)):]
			continue
		}
		var err error
		if r.length += n; r.length > maxMessage {
			return prm.SyndromeLocalLength, fmt.Errorf("a message of %d bytes", r.length)
		}
		if r.local, err = d.memory(r.local, a, uint32(prm.DataSeg.LKey.Get(s)), prm.DataSeg.Address.Get(s), n); err != nil {
			return prm.SyndromeLocalProt, err
		}
		s = s[prm.Octoword:]
	}
	return prm.SyndromeNone, nil
}
