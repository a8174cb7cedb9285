// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
	"purerdma/test/ethernet"
)

// rq is a receive queue of Ethernet.
type rq struct {
	workQueue
}

var rqCommands = map[uint16]command{
	prm.OpCreateRQ:  {"CREATE_RQ", 0x20 + prm.QueueContextSize, 16, createRQ},
	prm.OpModifyRQ:  {"MODIFY_RQ", 0x20 + prm.QueueContextSize, 16, modifyRQ},
	prm.OpDestroyRQ: {"DESTROY_RQ", 16, 16, destroyRQ},
	prm.OpQueryRQ:   {"QUERY_RQ", 16, 0x20 + prm.QueueContextSize, queryRQ},
}

func createRQ(d *Device, in, out []byte) (err error) {
	c := prm.CreateContextIn.Context.Of(in)
	d.checkReserved("CREATE_RQ", &prm.RQC, c[:prm.QueueContextSize])
	r := &rq{}
	if prm.RQC.MemType.Is(c) {
		return refuse(prm.StatusBadParam, "an RQ has memory of its own, not of type %d", prm.RQC.MemType.Get(c))
	}
	if r.workQueue, err = d.readWQ("RQ", c, prm.RQC.CQN); err != nil {
		return err
	}
	r.index = uint32(prm.RQC.UserIndex.Get(c))
	if r.n, err = d.rqs.add(r); err != nil {
		return err
	}
	r.hold(d, 1)
	prm.ObjectOut.Number.Set(out, uint64(r.n))
	return nil
}

func modifyRQ(d *Device, in, _ []byte) error {
	r, err := d.rqs.find(uint32(prm.ModifyContextIn.Number.Get(in)))
	if err != nil {
		return err
	}
	c, mask := prm.ModifyContextIn.Context.Of(in), prm.ModifyContextIn.Bitmask.Get(in)
	if mask&prm.ModifyRQVLAN != 0 {
		prm.RQC.VLANStripDisable.Set(r.context[:], prm.RQC.VLANStripDisable.Get(c))
	}
	if mask&prm.ModifyRQCounters != 0 {
		prm.RQC.Counters.Set(r.context[:], prm.RQC.Counters.Get(c))
	}
	to, err := r.changeState(in, prm.RQC.State)
	if err == nil && to == prm.QueueError && prm.RQC.FlushInError.Is(r.context[:]) {
		for range r.outstanding(d, 0) {
			r.fail(d, prm.SyndromeFlush)
		}
	}
	return err
}

func destroyRQ(d *Device, in, _ []byte) error {
	r, err := d.rqs.remove(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	r.hold(d, -1)
	return nil
}

func queryRQ(d *Device, in, out []byte) error {
	r, err := d.rqs.find(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	c := prm.CreateContextIn.Context.Of(out)
	copy(c, r.context[:])
	prm.RQC.State.Set(c, r.state)
	return nil
}

// receiveFrame handles a frame from the wire.
func (d *Device) receiveFrame(frame []byte) {
	h, ok := ethernet.Parse(frame)
	if !ok || !d.portUp() || !d.fw.vport.accepts(frame[:6]) {
		return
	}
	d.fw.port.frames.received[kindOf(frame)].add(len(frame))
	if d.cfg.Trace != nil {
		d.cfg.Trace(&FrameRecord{Device: d.cfg.Name, Frame: frame})
	}
	for _, t := range d.steer(&h) {
		if r, hash := t.queue(d, &h); r != nil {
			r.receive(d, &h, hash)
		}
	}
}

// receive stores a frame in the memory of the next receive. Without a receive the frame is
// lost.
func (r *rq) receive(d *Device, h *ethernet.Headers, hash uint32) {
	if r.state != prm.QueueReady {
		return
	}
	if r.outstanding(d, 0) == 0 {
		if c := d.qCounters.objects[uint32(prm.RQC.Counters.Get(r.context[:]))]; c != nil {
			c.outOfBuffer++
		}
		return
	}
	w := d.wqe[:r.stride]
	if !r.fetch(d, w) {
		r.fail(d, prm.SyndromeLocalQPOp)
		return
	}
	d.steps = 0
	var list [][]byte
	for ; len(w) >= prm.Octoword; w = w[prm.Octoword:] {
		if prm.DataSeg.ByteCount.Get(w) == 0 {
			continue
		}
		var err error
		if list, err = r.gatherSeg(d, list, w, localWrite); err != nil {
			d.violation(r.name(), "receive %#x: %v", r.pi&0xffff, err)
			r.fail(d, prm.SyndromeLocalProt)
			return
		}
	}
	var e completion
	r.describe(&e, h, hash)
	rest := h.Frame
	if prm.CQE.VLANStripped.Is(e[:]) {
		rest = append(append([]byte(nil), h.Frame[:12]...), h.Frame[12+ethernet.VLANLen:]...)
	}
	prm.CQE.ByteCount.Set(e[:], uint64(len(rest)))
	for _, b := range list {
		rest = rest[copy(b, rest):]
	}
	if len(rest) > 0 {
		return // too large, so the frame is lost and the receive remains
	}
	r.cq.complete(d, &e)
	r.pi++
}

// describe fills in the fields of a frame's completion.
func (r *rq) describe(e *completion, h *ethernet.Headers, hash uint32) {
	prm.CQE.Opcode.Set(e[:], prm.CQERespSend)
	prm.CQE.UserIndex.Set(e[:], uint64(r.index))
	prm.CQE.QPN.Set(e[:], uint64(r.n))
	prm.CQE.WQECounter.Set(e[:], uint64(r.pi))
	x := &prm.EthernetCQE
	x.L2OK.Set(e[:], 1)
	l3 := h.Frame[ethernet.HeaderLen:]
	if h.VLAN != nil {
		l3 = l3[ethernet.VLANLen:]
		if !prm.RQC.VLANStripDisable.Is(r.context[:]) {
			prm.CQE.VLANStripped.Set(e[:], 1)
			prm.CQE.VLANTag.Set(e[:], uint64(binary.BigEndian.Uint16(h.VLAN)))
		}
	}
	x.Checksum.Set(e[:], uint64(ethernet.Fold(ethernet.Sum(l3, 0))))
	if h.Version == 0 {
		return
	}
	ok3, ok4 := h.Verify()
	if ok3 {
		x.L3OK.Set(e[:], 1)
	}
	ip, rss := uint64(prm.CQEL3IPv4), uint64(prm.RSSIPv4)
	if h.Version == 6 {
		ip, rss = prm.CQEL3IPv6, prm.RSSIPv6
	}
	x.L3Type.Set(e[:], ip)
	x.RSSHash.Set(e[:], uint64(hash))
	if hash != 0 {
		x.RSSIP.Set(e[:], rss)
	}
	if h.L4 == nil {
		return
	}
	if ok4 {
		x.L4OK.Set(e[:], 1)
	}
	l4, rss := uint64(prm.CQEL4TCP), uint64(prm.RSSTCP)
	if h.Proto == ethernet.UDP {
		l4, rss = prm.CQEL4UDP, prm.RSSUDP
	}
	x.L4Type.Set(e[:], l4)
	if hash != 0 {
		x.RSSL4.Set(e[:], rss)
	}
}

// fail reports a failed receive, which ends the queue.
func (r *rq) fail(d *Device, syndrome prm.Syndrome) {
	var e completion
	prm.CQE.Opcode.Set(e[:], prm.CQERespErr)
	prm.CQE.UserIndex.Set(e[:], uint64(r.index))
	prm.CQE.QPN.Set(e[:], uint64(r.n))
	prm.CQE.WQECounter.Set(e[:], uint64(r.pi))
	prm.CQE.Syndrome.Set(e[:], uint64(syndrome))
	prm.CQE.VendorSyndrome.Set(e[:], vendorFlush)
	r.cq.complete(d, &e)
	r.pi++
	r.state = prm.QueueError
}
