// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"testing"
	"time"

	"purerdma/test/connectx/prm"
)

// rdmaTraffic returns the received and the sent unicast packets of QPs (PRM, QUERY_VPORT_COUNTER).
func (r *rig) rdmaTraffic() (received, sent traffic) {
	r.t.Helper()
	out := r.must(prm.OpQueryVportCounter, 0x20, nil, nil)
	at := func(i int) uint64 { return binary.BigEndian.Uint64(out[i:]) }
	return traffic{at(0x30), at(0x38)}, traffic{at(0x40), at(0x48)}
}

// TestRDMACounters checks the port's counters after a SEND of five packets, a READ of three, and a SEND
// that is lost.
func TestRDMACounters(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	src, dst := p.a.alloc(8192), p.b.alloc(8192)
	p.qb.receive(dst, 8192)
	p.qa.post(request1(prm.WQESend, signaled, 0).data(5000, p.a.key, src))
	p.qa.send.want(prm.CQEReq, nil)
	p.qa.post(request1(prm.WQERead, signaled, 0).remote(dst, p.b.key).data(3000, p.a.key, src))
	p.qa.send.want(prm.CQEReq, nil)
	p.a.d.fabric.OnPacket(func(*Packet) (Fate, time.Duration) { return Lost, 0 })
	p.qa.post(request1(prm.WQESend, signaled, 0).data(10, p.a.key, src))

	const answers = 1 + 3 // an acknowledgement and the data
	wantAnswers := traffic{answers, answers*packetHeaders + 3000}
	wantArrived := traffic{5 + 1, (5+1)*packetHeaders + 5000}
	wantSent := traffic{5 + 1 + 1, (5+1+1)*packetHeaders + 5000 + 10}
	if received, sent := p.a.rdmaTraffic(); received != wantAnswers || sent != wantSent {
		t.Errorf("requester: received %+v, sent %+v, want %+v, %+v", received, sent, wantAnswers, wantSent)
	}
	if received, sent := p.b.rdmaTraffic(); received != wantArrived || sent != wantAnswers {
		t.Errorf("responder: received %+v, sent %+v, want %+v, %+v", received, sent, wantArrived, wantAnswers)
	}
}
