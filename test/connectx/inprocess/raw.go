// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"syscall"

	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
)

// rawQP is a queue pair of raw packets. In the device it consists of separate queues.
type rawQP struct {
	tis    uint32
	sq, rq *rawQueue // nil for a missing queue
}

// rawQueue is a queue of a rawQP.
type rawQueue struct {
	n    uint32
	ring []byte
	kind *rawKind
}

// rawKind has the differences between send and receive queues.
type rawKind struct {
	create, modify, query, destroy uint16
	state                          prm.Field // the state in the context
}

var (
	rawSQ = &rawKind{prm.OpCreateSQ, prm.OpModifySQ, prm.OpQuerySQ, prm.OpDestroySQ, prm.SQC.State}
	rawRQ = &rawKind{prm.OpCreateRQ, prm.OpModifyRQ, prm.OpQueryRQ, prm.OpDestroyRQ, prm.RQC.State}
)

// makeRaw creates a QP of raw packets. A QP with a send queue has the number of this queue.
func (d *device) makeRaw(q *mlx5test.QP) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &rawQP{}
	d.mem.add(q.DB)
	defer func() {
		if err != nil {
			d.endRaw(q, r)
		}
	}()
	if len(q.SQ) > 0 {
		out, err := d.command(prm.OpCreateTIS, 0x20+prm.TISSize, nil, 16, func(in []byte) {
			prm.TISC.TransportDomain.Set(prm.CreateContextIn.Context.Of(in), uint64(d.td))
		})
		if err != nil {
			return err
		}
		r.tis = uint32(prm.ObjectOut.Number.Get(out))
		if r.sq, err = d.rawQueue(rawSQ, q, q.SQ, mlx5test.WQEBB, func(c []byte) {
			prm.SQC.FlushInError.Set(c, 1)
			prm.SQC.UserIndex.Set(c, uint64(q.Create.UIdx))
			prm.SQC.CQN.Set(c, uint64(q.SendCQ.Num))
			prm.SQC.TISListSize.Set(c, 1)
			prm.SQC.TIS.Set(c, uint64(r.tis))
			prm.WQ.UARPage.Set(prm.SQC.WQ.Of(c), uint64(d.uars[q.UAR]))
		}); err != nil {
			return err
		}
		q.Num = r.sq.n
	}
	if len(q.RQ) > 0 {
		if r.rq, err = d.rawQueue(rawRQ, q, q.RQ, q.RQStride, func(c []byte) {
			prm.RQC.FlushInError.Set(c, 1)
			prm.RQC.VLANStripDisable.Set(c, 1)
			prm.RQC.UserIndex.Set(c, uint64(q.Create.UIdx))
			prm.RQC.CQN.Set(c, uint64(q.RecvCQ.Num))
		}); err != nil {
			return err
		}
		if r.sq == nil {
			q.Num = r.rq.n
		}
	}
	d.moved[q] = &rights{raw: r}
	return nil
}

// rawQueue creates a queue with a stride in bytes.
func (d *device) rawQueue(kind *rawKind, q *mlx5test.QP, ring []byte, stride int, fill func(c []byte)) (*rawQueue, error) {
	if offset(ring)%64 != 0 {
		return nil, syscall.EINVAL
	}
	d.mem.add(ring)
	out, err := d.command(kind.create, 0x20+prm.QueueContextSize, pageList(ring), 16, func(in []byte) {
		c := prm.CreateContextIn.Context.Of(in)
		wq := c[prm.QueueContextSize-prm.WQSize:]
		prm.WQ.Type.Set(wq, prm.WQCyclic)
		prm.WQ.PD.Set(wq, uint64(q.PD()))
		prm.WQ.DBRAddr.Set(wq, address(q.DB))
		prm.WQ.PageOffset.Set(wq, offset(ring)/64)
		prm.WQ.LogStride.Set(wq, logOf(stride))
		prm.WQ.LogSize.Set(wq, logOf(len(ring)/stride))
		fill(c)
	})
	if err != nil {
		d.mem.remove(ring)
		return nil, err
	}
	return &rawQueue{n: uint32(prm.ObjectOut.Number.Get(out)), ring: ring, kind: kind}, nil
}

// queues returns the existing queues.
func (r *rawQP) queues() (all []*rawQueue) {
	for _, q := range []*rawQueue{r.sq, r.rq} {
		if q != nil {
			all = append(all, q)
		}
	}
	return all
}

// endRaw destroys the existing objects of a QP.
func (d *device) endRaw(q *mlx5test.QP, r *rawQP) {
	for _, w := range r.queues() {
		d.end(w.kind.destroy, w.n)
		d.mem.remove(w.ring)
	}
	if r.tis != 0 {
		d.end(prm.OpDestroyTIS, r.tis)
	}
	d.mem.remove(q.DB)
}

// moveRaw moves the queues with the QP. As in mlx5_ib, both are ready from INIT on.
func (d *device) moveRaw(r *rawQP, from, to uint8) error {
	var state uint64
	switch {
	case to == ibReset:
		state = prm.QueueReset
	case to == ibErr:
		state = prm.QueueError
	case from == ibReset && to == ibInit:
		state = prm.QueueReady
	default:
		return nil
	}
	for _, w := range r.queues() {
		if err := d.moveRawQueue(w, state); err != nil {
			return err
		}
	}
	return nil
}

func (d *device) moveRawQueue(w *rawQueue, to uint64) error {
	from, err := d.rawQueueState(w) // the device may have moved the queue
	if err != nil {
		return err
	}
	if from == to {
		return nil
	}
	_, err = d.command(w.kind.modify, 0x20+prm.QueueContextSize, nil, 16, func(in []byte) {
		prm.ModifyContextIn.Number.Set(in, uint64(w.n))
		prm.ModifyContextIn.State.Set(in, from)
		w.kind.state.Set(prm.ModifyContextIn.Context.Of(in), to)
	})
	return err
}

func (d *device) rawQueueState(w *rawQueue) (uint64, error) {
	out, err := d.command(w.kind.query, 16, nil, 0x20+prm.QueueContextSize, func(in []byte) { prm.ObjectIn.Number.Set(in, uint64(w.n)) })
	if err != nil {
		return 0, err
	}
	return w.kind.state.Get(prm.CreateContextIn.Context.Of(out)), nil
}

// rawState returns the state of a QP. It is the state of the last transition, unless the queues, or only the send
// queue, have failed since.
func (d *device) rawState(r *rights) (uint8, error) {
	all := r.raw.queues()
	var failed []*rawQueue
	for _, w := range all {
		state, err := d.rawQueueState(w)
		if err != nil {
			return 0, err
		}
		if state == prm.QueueError {
			failed = append(failed, w)
		}
	}
	switch {
	case len(failed) == 0:
		return r.state, nil
	case len(failed) == len(all):
		return ibErr, nil
	case failed[0] == r.raw.sq:
		return ibSQE, nil
	}
	return r.state, nil
}
