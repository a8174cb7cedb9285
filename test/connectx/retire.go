// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// retire completes the finished requests in order.
func (q *qp) retire() {
	for len(q.flights) > 0 && q.flights[0].done && q.state != prm.QPErr {
		f := q.flights[0]
		q.flights = q.flights[1:]
		switch {
		case f.syndrome != prm.SyndromeNone:
			q.completeSend(&f, f.syndrome)
			if !q.failStream(f.stream) {
				q.toErr()
			}
		case f.signaled:
			q.completeSend(&f, prm.SyndromeNone)
		}
	}
	q.drained()
}

// flushSends completes all posted requests without executing them.
func (q *qp) flushSends() {
	if q.sendCQ == nil {
		return
	}
	for _, f := range q.flights {
		q.completeSend(&f, prm.SyndromeFlush)
	}
	q.flights = q.spare[:0]
	posted := q.posted()
	if int(posted-q.next) > 1<<q.logSQ {
		return
	}
	posted = q.available()
	for q.next != posted {
		w := q.wqebb(q.next)
		if w == nil {
			return
		}
		f := flight{index: q.next, opcode: uint8(prm.Ctrl.Opcode.Get(w))}
		q.advance(min(posted-q.next, uint16(max(1, (prm.Ctrl.DS.Get(w)*prm.Octoword+prm.WQEBB-1)/prm.WQEBB))))
		q.completeSend(&f, prm.SyndromeFlush)
	}
}

// completeSend writes a completion of the send queue.
func (q *qp) completeSend(f *flight, s prm.Syndrome) {
	var e completion
	prm.CQE.Opcode.Set(e[:], prm.CQEReq)
	prm.CQE.UserIndex.Set(e[:], prm.QPC.UserIndex.Get(q.context[:]))
	prm.CQE.SendOpcode.Set(e[:], uint64(f.opcode))
	prm.CQE.QPN.Set(e[:], uint64(q.n))
	prm.CQE.WQECounter.Set(e[:], uint64(f.index))
	if s == prm.SyndromeNone {
		prm.CQE.ByteCount.Set(e[:], uint64(f.bytes))
		prm.CQE.Timestamp.Set(e[:], q.d.time())
		if f.solicited {
			prm.CQE.Solicited.Set(e[:], 1)
		}
		wide := q.sendCQ.inline(&e, f.scattered[:f.short])
		if !q.sendCQ.completeAlike(q.d, &e, wide) {
			q.fatal(prm.EventWQCatas)
		}
		return
	}
	prm.CQE.Opcode.Set(e[:], prm.CQEReqErr)
	prm.CQE.Syndrome.Set(e[:], uint64(s))
	if s == prm.SyndromeFlush {
		prm.CQE.VendorSyndrome.Set(e[:], vendorFlush)
	}
	q.sendCQ.complete(q.d, &e)
}
