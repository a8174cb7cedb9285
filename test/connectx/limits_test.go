// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"errors"
	"testing"

	"purerdma/test/connectx/prm"
)

// untilFull calls create until the device rejects it because of missing resources, and returns
// the number of successful calls.
func untilFull(t *testing.T, most int, create func(i int) error) int {
	t.Helper()
	for i := range most + 1 {
		switch err := create(i); {
		case errors.Is(err, statusError(prm.StatusNoResources)):
			return i
		case err != nil:
			t.Fatalf("create(%d) = %v", i, err)
		}
	}
	t.Fatalf("more than %d objects were created", most)
	return 0
}

// TestQueuePagesEnd creates queues until the device has no memory for their page lists.
func TestQueuePagesEnd(t *testing.T) {
	h := newHost(t, nil, 1)
	h.d.cfg.Trace = nil
	const log, inOne = maxLogCQ, 64 << maxLogCQ / 4096
	list := make([]byte, 0, 8*inOne)
	for range inOne {
		list = be.AppendUint64(list, memoryBase)
	}
	record := h.alloc(8)
	var last uint32
	create := func(int) error {
		out, err := h.command(prm.OpCreateCQ, 0x110, list, func(in []byte) {
			c := prm.CQIn.Context.Of(in)
			prm.CQC.LogCQSize.Set(c, log)
			prm.CQC.UARPage.Set(c, uint64(h.uar))
			prm.CQC.EQN.Set(c, uint64(h.eq.n))
			prm.CQC.DBRAddr.Set(c, record)
		})
		if err == nil {
			last = uint32(prm.ObjectOut.Number.Get(out))
		}
		return err
	}
	if n, want := untilFull(t, maxQueuePages/inOne, create), maxQueuePages/inOne-1; n != want { // the EQ uses some
		t.Errorf("created %d queues, want %d", n, want)
	}
	if err := h.on(prm.OpDestroyCQ, last); err != nil {
		t.Fatalf("h.on(OpDestroyCQ): %v", err)
	}
	if err := create(0); err != nil {
		t.Errorf("create after a destroy = %v", err)
	}
}

// TestQueuePagesGivenBack creates and destroys a queue of each kind, and fails to create some.
// No page must remain counted.
func TestQueuePagesGivenBack(t *testing.T) {
	p := newPortOn(t, nil, 1)
	h := p.host
	start := h.d.queuePages.used
	cq := h.cq(4, nil)
	qp, srq := h.qp(prm.ServiceRC, cq, cq, nil), h.srq()
	rq, eq := p.rq(0, nil), h.rig.eq(h.uar, 2)
	if got := h.d.queuePages.used; got != start+7 {
		t.Errorf("%d pages after creating queues with 7 pages, %d before", got, start)
	}
	if _, err := h.command(prm.OpCreateQP, prm.QPInLen, nil, func(in []byte) {
		c := prm.QPIn.Context.Of(in)
		prm.QPC.PD.Set(c, uint64(h.pd))
		prm.QPC.UARPage.Set(c, uint64(h.uar))
		prm.QPC.SendCQN.Set(c, uint64(cq.n))
		prm.QPC.RecvCQN.Set(c, uint64(cq.n))
	}); err == nil {
		t.Error("CREATE_QP without pages = nil error")
	}
	if _, err := cq.resize(8, 64, nil); err != nil {
		t.Fatalf("cq.resize: %v", err)
	}
	for _, o := range []struct {
		op uint16
		n  uint32
	}{{prm.OpDestroyQP, qp.n}, {prm.OpDestroyRMP, srq.n}, {prm.OpDestroyCQ, cq.n}, {prm.OpDestroyRQ, rq.n}, {prm.OpDestroyCQ, rq.cq.n}} {
		if err := h.on(o.op, o.n); err != nil {
			t.Fatalf("h.on: %v", err)
		}
	}
	h.must(prm.OpDestroyEQ, 16, nil, func(in []byte) { prm.EQNumber.Set(in, uint64(eq.n)) })
	if got := h.d.queuePages.used; got != start {
		t.Errorf("%d pages at the end, %d before", got, start)
	}
}

// TestObjectsEnd creates Ethernet objects up to the limits that the device reports.
func TestObjectsEnd(t *testing.T) {
	p := newPortOn(t, nil, 1)
	p.d.cfg.Trace = nil
	if n := untilFull(t, 1<<logMaxTIS, func(int) error {
		_, err := p.command(prm.OpCreateTIS, 0x20+prm.TISSize, nil, func(in []byte) {
			prm.TISC.TransportDomain.Set(prm.CreateContextIn.Context.Of(in), uint64(p.domain))
		})
		return err
	}); n != 1<<logMaxTIS-1 { // one existed before
		t.Errorf("created %d TISs", n)
	}
	wide := p.wideTable(17)
	g := p.group(wide, 0, 1<<17-1, nil)
	if err := p.tryEntry(wide, g, 0, prm.FlowForward, nil, make([]to, 1<<logMaxDestination+1)...); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("entry with too many destinations = %v, want BAD_PARAM", err)
	}
	if n := untilFull(t, 1<<logMaxFlow, func(i int) error { return p.tryEntry(wide, g, uint32(i), prm.FlowAllow, nil) }); n != 1<<logMaxFlow {
		t.Errorf("created %d entries of flow tables", n)
	}
	if _, err := p.flowCommand(prm.OpDeleteFlowTableEntry, 0x40, nil, wide, nil); err != nil {
		t.Fatalf("p.flowCommand(OpDeleteFlowTableEntry): %v", err)
	}
	if err := p.tryEntry(wide, g, 1<<17-1, prm.FlowAllow, nil); err != nil {
		t.Errorf("create of an entry after a delete = %v", err)
	}
	groups := p.wideTable(17)
	if n := untilFull(t, maxFlowGroups, func(i int) error { _, err := p.tryGroup(groups, uint32(i), uint32(i), nil); return err }); n != maxFlowGroups-1 {
		t.Errorf("created %d groups of flow tables", n)
	}
}

// wideTable creates a flow table of 2^log entries.
func (r *rig) wideTable(log uint64) uint32 {
	out := r.must(prm.OpCreateFlowTable, 0x40, nil, func(in []byte) { prm.FlowTable.LogSize.Set(prm.FlowIn.TableContext.Of(in), log) })
	return uint32(prm.ObjectOut.Number.Get(out))
}

// TestGroupsEnd adds QPs to multicast groups up to the limit, and removes one.
func TestGroupsEnd(t *testing.T) {
	h := newHost(t, nil, 1)
	h.d.cfg.Trace = nil
	cq := h.cq(4, nil)
	var q *testQP
	member := func(op uint16, group int) error {
		_, err := h.command(op, 32, nil, func(in []byte) {
			prm.MCGIn.QPN.Set(in, uint64(q.n))
			be.PutUint32(prm.MCGIn.GID.Of(in), uint32(group))
		})
		return err
	}
	start := h.used
	if n := untilFull(t, maxQPMCG, func(int) error {
		h.used = start // reuse the memory
		q = h.qp(prm.ServiceUD, cq, cq, nil)
		return member(prm.OpAttachMCG, 0)
	}); n != maxQPMCG {
		t.Errorf("added %d QPs to a group", n)
	}
	if n := untilFull(t, 1<<logMaxMCG, func(i int) error { return member(prm.OpAttachMCG, i+1) }); n != 1<<logMaxMCG-1 {
		t.Errorf("created %d groups in addition to the first", n)
	}
	for _, err := range []error{member(prm.OpDetachMCG, 1), member(prm.OpAttachMCG, 1<<20)} {
		if err != nil {
			t.Errorf("attach after a detach = %v", err)
		}
	}
	if err := member(prm.OpDetachMCG, 1); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("second detach = %v, want BAD_PARAM", err)
	}
}

// TestAddressesEnd changes the port's addresses repeatedly.
func TestAddressesEnd(t *testing.T) {
	h := newHost(t, nil, 1)
	h.d.cfg.Trace = nil
	for i := range uint32(1000) {
		h.must(prm.OpSetRoCEAddress, 0x30, nil, func(in []byte) {
			prm.RoCEAddressIn.Index.Set(in, uint64(1+i%2))
			be.PutUint32(prm.RoCEAddress.Address.Of(prm.RoCEAddressIn.Address.Of(in)), i+1)
		})
	}
	if n := len(h.d.owned); n != 3 {
		t.Errorf("the device has %d addresses, want 3", n)
	}
}
