// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"

	"purerdma/test/connectx/prm"
	"purerdma/test/ethernet"
)

// sq is a send queue of Ethernet, whose requests are frames. Its number is in the number space
// of QPs, because doorbells refer to both.
type sq struct {
	workQueue
	tis   *tis  // nil for a queue that does not send frames
	later timer // continues with requests in excess of maxAtOnce
}

var sqCommands = map[uint16]command{
	prm.OpCreateSQ:  {"CREATE_SQ", 0x20 + prm.QueueContextSize, 16, createSQ},
	prm.OpModifySQ:  {"MODIFY_SQ", 0x20 + prm.QueueContextSize, 16, modifySQ},
	prm.OpDestroySQ: {"DESTROY_SQ", 16, 16, destroySQ},
	prm.OpQuerySQ:   {"QUERY_SQ", 16, 0x20 + prm.QueueContextSize, querySQ},
}

func createSQ(d *Device, in, out []byte) (err error) {
	c := prm.CreateContextIn.Context.Of(in)
	d.checkReserved("CREATE_SQ", &prm.SQC, c[:prm.QueueContextSize])
	s := &sq{}
	if s.workQueue, err = d.readWQ("SQ", c, prm.SQC.CQN); err != nil {
		return err
	}
	if s.stride != prm.WQEBB {
		return refuse(prm.StatusBadParam, "an SQ with strides of %d bytes", s.stride)
	}
	// A queue that does not send frames has no TIS, such as mlx5e's queue for internal
	// operations.
	if prm.SQC.TISListSize.Is(c) {
		if s.tis, err = d.tiss.find(uint32(prm.SQC.TIS.Get(c))); err != nil {
			return err
		}
	}
	if s.uar, err = d.uars.find(uint32(prm.WQ.UARPage.Get(prm.SQC.WQ.Of(c)))); err != nil {
		return err
	}
	s.index = uint32(prm.SQC.UserIndex.Get(c))
	if s.n, err = d.queues.add(s); err != nil {
		return err
	}
	s.uar.sqs = append(s.uar.sqs, s)
	s.hold(d, 1)
	if s.tis != nil {
		s.tis.users++
	}
	prm.ObjectOut.Number.Set(out, uint64(s.n))
	return nil
}

// findSQ returns the SQ with a number.
func (d *Device) findSQ(n uint32) (*sq, error) {
	if s, ok := d.queues.objects[n].(*sq); ok {
		return s, nil
	}
	return nil, refuse(prm.StatusBadResource, "there is no SQ %#x", n)
}

func modifySQ(d *Device, in, _ []byte) error {
	s, err := d.findSQ(uint32(prm.ModifyContextIn.Number.Get(in)))
	if err != nil {
		return err
	}
	to, err := s.changeState(in, prm.SQC.State)
	if err == nil && to == prm.QueueError {
		s.flush(d)
	}
	if err == nil && to == prm.QueueReset {
		s.stop()
	}
	return err
}

// stop stops the timer.
func (s *sq) stop() { s.later.Stop() }

func destroySQ(d *Device, in, _ []byte) error {
	s, err := d.findSQ(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	s.stop()
	s.uar.sqs = without(s.uar.sqs, s)
	s.hold(d, -1)
	if s.tis != nil {
		s.tis.users--
	}
	delete(d.queues.objects, s.n)
	return nil
}

func querySQ(d *Device, in, out []byte) error {
	s, err := d.findSQ(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	c := prm.CreateContextIn.Context.Of(out)
	copy(c, s.context[:])
	prm.SQC.State.Set(c, s.state)
	return nil
}

// doorbell executes the posted requests.
func (s *sq) doorbell(d *Device, u *uar, p []byte) {
	if u != s.uar {
		d.violation(s.name(), "a doorbell on page %#x, its own is %#x", u.n, s.uar.n)
		return
	}
	if s.state == prm.QueueReset {
		d.violation(s.name(), "a doorbell in the reset state")
		return
	}
	s.run(d)
}

// run executes the requests up to the current doorbell record.
func (s *sq) run(d *Device) {
	end, began := s.pi+s.outstanding(d, 1), d.fabric.work
	for s.pi != end {
		if d.fabric.work-began > maxAtOnce {
			s.later.start(d.fabric, 0, func() { s.run(d) })
			return
		}
		n := end - s.pi
		w := d.wqe[:prm.Octoword]
		if !s.fetch(d, w) {
			s.fail(d, w, prm.SyndromeLocalQPOp, 1)
			return
		}
		ds := uint32(prm.Ctrl.DS.Get(w))
		wqebb := max(1, (ds*prm.Octoword+prm.WQEBB-1)/prm.WQEBB)
		switch {
		case s.state == prm.QueueError:
			s.complete(d, w, prm.SyndromeFlush)
			s.pi += min(wqebb, n)
			continue
		case prm.Ctrl.QPN.Get(w) != uint64(s.n):
			d.violation(s.name(), "request %#x is one of QP %#x", s.pi&0xffff, prm.Ctrl.QPN.Get(w))
		case prm.Ctrl.Index.Get(w) != uint64(s.pi&0xffff):
			d.violation(s.name(), "request %#x has index %#x", s.pi&0xffff, prm.Ctrl.Index.Get(w))
		}
		if ds == 0 || wqebb > n {
			d.violation(s.name(), "request %#x has %d octowords, %d WQEBBs are posted", s.pi&0xffff, ds, n)
			s.fail(d, w, prm.SyndromeLocalQPOp, min(wqebb, n))
			return
		}
		w = d.wqe[:ds*prm.Octoword]
		if !s.fetch(d, w) {
			s.fail(d, w, prm.SyndromeLocalQPOp, wqebb)
			return
		}
		if syndrome := s.send(d, w); syndrome != prm.SyndromeNone {
			s.fail(d, w, syndrome, wqebb)
			return
		}
		if c := prm.Ctrl.Completion.Get(w); c == prm.CompletionAlways || c == prm.CompletionEvent {
			s.complete(d, w, prm.SyndromeNone)
		}
		s.pi += wqebb
	}
}

// send sends the frames of one request.
func (s *sq) send(d *Device, w []byte) prm.Syndrome {
	opcode := uint8(prm.Ctrl.Opcode.Get(w))
	switch {
	case opcode == prm.WQENop:
		return prm.SyndromeNone
	case s.tis == nil || opcode != prm.WQESend && opcode != prm.WQELSO:
		d.violation(s.name(), "operation %#x", opcode)
		return prm.SyndromeLocalQPOp
	}
	if len(w) < prm.Octoword+prm.EthernetSegLen {
		d.violation(s.name(), "a frame in a request of %d bytes", len(w))
		return prm.SyndromeLocalQPOp
	}
	e := w[prm.Octoword:]
	inline := int(prm.EthernetSeg.InlineSize.Get(e))
	rest := e[prm.EthernetSegLen:]
	if inline > 0 {
		if prm.InlineStart+inline > len(e) {
			d.violation(s.name(), "%d bytes inline in a request of %d", inline, len(w))
			return prm.SyndromeLocalQPOp
		}
		rest = e[prm.EthernetSegLen+(max(0, inline-prm.InlineInSeg)+prm.Octoword-1)&^(prm.Octoword-1):]
	}
	d.steps = 0
	var list [][]byte
	size := uint64(inline)
	for len(rest) >= prm.Octoword {
		n := prm.DataSeg.ByteCount.Get(rest)
		if size += n; size > maxFrame {
			d.violation(s.name(), "request %#x has more than %d bytes", s.pi&0xffff, maxFrame)
			return prm.SyndromeLocalLength
		}
		if prm.DataSeg.Inline.Is(rest) {
			if 4+n > uint64(len(rest)) {
				d.violation(s.name(), "%d inline bytes in a segment of %d", n, len(rest))
				return prm.SyndromeLocalQPOp
			}
			list = append(list, rest[4:4+n])
			rest = rest[(4+n+prm.Octoword-1)&^(prm.Octoword-1):]
			continue
		}
		var err error
		if list, err = s.gatherSeg(d, list, rest, localRead); err != nil {
			d.violation(s.name(), "request %#x: %v", s.pi&0xffff, err)
			return prm.SyndromeLocalProt
		}
		rest = rest[prm.Octoword:]
	}
	frame := append(bytes.Clone(e[prm.InlineStart:][:inline]), bytes.Join(list, nil)...)
	frames := [][]byte{frame}
	if opcode == prm.WQELSO {
		if frames = ethernet.CutTCP(frame, inline, int(prm.EthernetSeg.MSS.Get(e))); frames == nil {
			d.violation(s.name(), "request %#x: %d bytes of headers cannot be those of segments of %d bytes", s.pi&0xffff, inline, prm.EthernetSeg.MSS.Get(e))
			return prm.SyndromeLocalQPOp
		}
	}
	for _, f := range frames {
		if h, ok := ethernet.Parse(f); ok {
			h.Checksum(prm.EthernetSeg.L3Checksum.Is(e), prm.EthernetSeg.L4Checksum.Is(e))
			d.sendFrame(f)
		}
	}
	return prm.SyndromeNone
}

// complete completes a request.
func (s *sq) complete(d *Device, w []byte, syndrome prm.Syndrome) {
	var e completion
	prm.CQE.UserIndex.Set(e[:], uint64(s.index))
	prm.CQE.QPN.Set(e[:], uint64(s.n))
	prm.CQE.SendOpcode.Set(e[:], prm.Ctrl.Opcode.Get(w))
	prm.CQE.WQECounter.Set(e[:], uint64(s.pi))
	prm.CQE.Opcode.Set(e[:], prm.CQEReq)
	if syndrome != prm.SyndromeNone {
		prm.CQE.Opcode.Set(e[:], prm.CQEReqErr)
		prm.CQE.Syndrome.Set(e[:], uint64(syndrome))
		prm.CQE.VendorSyndrome.Set(e[:], vendorFlush)
	}
	s.cq.complete(d, &e)
}

// fail completes a failed request, which ends the queue.
func (s *sq) fail(d *Device, w []byte, syndrome prm.Syndrome, wqebb uint32) {
	s.complete(d, w, syndrome)
	s.pi += wqebb
	s.state = prm.QueueError
	s.flush(d)
}

// flush completes all remaining requests.
func (s *sq) flush(d *Device) {
	if prm.SQC.FlushInError.Is(s.context[:]) {
		s.run(d)
	}
}

// sendFrame sends a frame to all other ports.
func (d *Device) sendFrame(frame []byte) {
	if !d.portUp() {
		return
	}
	d.fabric.work += frameCost + uint64(len(frame))
	d.fw.port.frames.sent[kindOf(frame)].add(len(frame))
	if d.cfg.Trace != nil {
		d.cfg.Trace(&FrameRecord{Device: d.cfg.Name, Sent: true, Frame: frame})
	}
	for _, o := range d.fabric.devices {
		if o != d {
			o.receiveFrame(frame)
		}
	}
}
