// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// qp is a queue pair.
type qp struct {
	d       *Device
	n       uint32
	context [232]byte // as set and changed by the driver
	service uint64
	state   uint64
	pd      *pd
	uar     *uar
	sendCQ  *cq // nil if it sends nothing
	recvCQ  *cq // nil if it receives nothing
	srq     *srq
	xrcd    *xrcd

	buffer       buffer
	sqOff        uint64 // offset of the send queue in the buffer.
	logSQ        uint   // log2 of its size in WQEBBs.
	record       uint64 // doorbell record, with posted receives and WQEBBs.
	exact        bool   // see Quirks.ExactDoorbells
	granted, ece uint32 // options of the device, and their subset that the peer supports
	recv         *receiveQueue

	requester
	responder
	users // groups
}

// firstQP is above the special QPs' numbers.
const firstQP = 0x40

var qpCommands = map[uint16]command{
	prm.OpCreateQP:  {"CREATE_QP", prm.QPInLen, 16, createQP},
	prm.OpDestroyQP: {"DESTROY_QP", 16, 16, destroyQP},
	prm.OpQueryQP:   {"QUERY_QP", 16, prm.QPInLen, queryQP},
	prm.OpRst2Init:  moveQP("RST2INIT_QP", prm.QPReset, prm.QPInit),
	prm.OpInit2Init: moveQP("INIT2INIT_QP", prm.QPInit, prm.QPInit),
	prm.OpInit2RTR:  moveQP("INIT2RTR_QP", prm.QPInit, prm.QPRTR),
	prm.OpRTR2RTS:   moveQP("RTR2RTS_QP", prm.QPRTR, prm.QPRTS),
	prm.OpRTS2RTS:   moveQP("RTS2RTS_QP", prm.QPRTS, prm.QPRTS),
	prm.OpSQErr2RTS: moveQP("SQERR2RTS_QP", prm.QPSQErr, prm.QPRTS),
	prm.OpSQDRTS:    moveQP("SQD_RTS_QP", prm.QPSQD, prm.QPRTS),
	prm.Op2Err:      {"2ERR_QP", 16, 16, qpToErr},
	prm.Op2Rst:      {"2RST_QP", 16, 16, qpToReset},
}

// services lists the transport services of a QP with their names.
var services = map[uint64]string{
	prm.ServiceRC: "RC", prm.ServiceUC: "UC", prm.ServiceUD: "UD", prm.ServiceXRC: "XRC", prm.ServiceDCI: "DCI",
	prm.ServiceQP1: "QP1", prm.ServiceRegU: "UMR",
}

func createQP(d *Device, in, out []byte) (err error) {
	c := prm.QPIn.Context.Of(in)
	d.checkReserved("CREATE_QP", &prm.QPC, c)
	q := &qp{d: d, context: [232]byte(c), service: prm.QPC.Service.Get(c), record: prm.QPC.DBRAddr.Get(c)}
	if _, ok := services[q.service]; !ok {
		return refuse(prm.StatusBadParam, "there is no transport service %#x", q.service)
	}
	if err := q.find(); err != nil {
		return err
	}
	if err := q.layOut(prm.QPIn.PAS.Of(in)); err != nil {
		return err
	}
	if q.n, err = d.queues.add(q); err != nil {
		return err
	}
	q.exact = d.quirks.ExactDoorbells
	q.granted = agreeECE(uint32(prm.QPIn.ECE.Get(in)))
	q.reset()
	q.useObjects(1)
	if q.uar != nil {
		q.uar.qps = append(q.uar.qps, q)
	}
	prm.QPOut.QPN.Set(out, uint64(q.n))
	prm.QPOut.ECE.Set(out, uint64(q.ece))
	return nil
}

// find resolves the references in the context.
func (q *qp) find() (err error) {
	c, d := q.context[:], q.d
	if q.pd, err = d.pds.find(uint32(prm.QPC.PD.Get(c))); err != nil {
		return err
	}
	if !prm.QPC.NoSQ.Is(c) {
		if q.sendCQ, err = d.cqs.find(uint32(prm.QPC.SendCQN.Get(c))); err != nil {
			return err
		}
		if q.uar, err = d.uars.find(uint32(prm.QPC.UARPage.Get(c))); err != nil {
			return err
		}
	}
	kind := prm.QPC.RQType.Get(c)
	if kind == prm.RQRegular || kind == prm.RQShared {
		if q.recvCQ, err = d.cqs.find(uint32(prm.QPC.RecvCQN.Get(c))); err != nil {
			return err
		}
	}
	switch {
	case q.service == prm.ServiceXRC:
		q.xrcd, err = d.xrcds.find(uint32(prm.QPC.XRCD.Get(c)))
	case kind == prm.RQShared:
		q.srq, err = d.findSRQ(uint32(prm.QPC.SRQN.Get(c)), false)
	}
	return err
}

// layOut determines the rings, receives first, then sends.
func (q *qp) layOut(pas []byte) (err error) {
	c := q.context[:]
	if err := checkRecord(q.record); err != nil {
		return err
	}
	var r *receiveQueue
	if prm.QPC.RQType.Get(c) == prm.RQRegular && q.service != prm.ServiceXRC {
		r = &receiveQueue{logSize: uint(prm.QPC.LogRQSize.Get(c)), stride: 16 << prm.QPC.LogRQStride.Get(c), record: q.record}
		q.sqOff = r.stride << r.logSize
	}
	size := q.sqOff
	if q.sendCQ != nil {
		q.logSQ = uint(prm.QPC.LogSQSize.Get(c))
		size += prm.WQEBB << q.logSQ
	}
	if q.buffer, err = q.d.newBuffer(pas, prm.QPC.LogPageSize.Get(c), prm.QPC.PageOffset.Get(c), size); err != nil {
		return err
	}
	if r != nil {
		r.buffer = q.buffer
		q.recv = r
	}
	if q.srq != nil {
		q.recv = &q.srq.receiveQueue
	}
	return nil
}

// useObjects adds n to the users of the QP's parents.
func (q *qp) useObjects(n users) {
	q.pd.users += n
	q.buffer.hold(q.d, n)
	if q.sendCQ != nil {
		q.sendCQ.users += n
	}
	if q.recvCQ != nil {
		q.recvCQ.users += n
	}
	if q.srq != nil {
		q.srq.users += n
	}
	if q.xrcd != nil {
		q.xrcd.users += n
	}
}

// findQP returns the QP with a number.
func (d *Device) findQP(n uint32) (*qp, error) {
	q, ok := d.queues.objects[n].(*qp)
	if !ok {
		return nil, refuse(prm.StatusBadResource, "there is no QP %#x", n)
	}
	return q, nil
}

func destroyQP(d *Device, in, _ []byte) error {
	q, err := d.findQP(uint32(prm.QPIn.QPN.Get(in)))
	if err != nil {
		return err
	}
	if q.users > 0 {
		return refuse(prm.StatusResourceBusy, "QP %#x is in %d multicast groups", q.n, int(q.users))
	}
	d.rememberQP(q)
	q.stop()
	q.useObjects(-1)
	if q.uar != nil {
		q.uar.forget(q)
	}
	delete(d.fabric.force, q)
	delete(d.fabric.forceRecv, q)
	delete(d.queues.objects, q.n)
	return nil
}

func queryQP(d *Device, in, out []byte) error {
	q, err := d.findQP(uint32(prm.QPIn.QPN.Get(in)))
	if err != nil {
		return err
	}
	c := prm.QPIn.Context.Of(out)
	copy(c, q.context[:])
	prm.QPC.State.Set(c, q.state)
	prm.QPC.NextSendPSN.Set(c, uint64(q.sendPSN))
	prm.QPC.NextRecvPSN.Set(c, uint64(q.recvPSN))
	prm.QPC.HWSQCounter.Set(c, uint64(q.done()))
	prm.QPC.SWSQCounter.Set(c, uint64(q.posted()))
	if q.recv != nil {
		prm.QPC.HWRQCounter.Set(c, uint64(q.recv.taken))
	}
	prm.QPIn.ECE.Set(out, uint64(q.ece))
	q.buffer.put(prm.QPIn.PAS.Of(out))
	return nil
}

// name returns the QP's name in violations.
func (q *qp) name() string { return fmt.Sprintf("QP %#x", q.n) }

// posted returns the number of WQEBBs that the driver has posted.
func (q *qp) posted() uint16 {
	b := q.d.mem.Bytes(q.record, 8)
	if b == nil || !pci.Aligned(b) {
		return q.next
	}
	return uint16(pci.LoadWord(b[4:]))
}

// connected reports whether the QP has exactly one peer.
func (q *qp) connected() bool {
	return q.service == prm.ServiceRC || q.service == prm.ServiceUC || q.service == prm.ServiceXRC
}

// datagrams reports whether each request of the QP has its own address and no answer.
func (q *qp) datagrams() bool { return q.service == prm.ServiceUD || q.service == prm.ServiceQP1 }
