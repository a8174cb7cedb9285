// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"time"

	"purerdma/abi"
	"purerdma/verbs"
)

// errorChecks provoke errors.
var errorChecks = []Check{
	{ID: "remote-errors", recorded: true, Title: "wrong keys and bounds of remote memory", do: checkRemoteErrors},
	{ID: "local-errors", recorded: true, Title: "wrong keys and bounds of local memory", needs: needsReliableErrors, do: checkLocalErrors},
	{ID: "bad-opcode", recorded: true, Title: "a request whose opcode no device has", needs: needsConnectX, do: checkBadOpcode},
	{ID: "receive-errors", recorded: true, Title: "receives that are too short, or without memory", needs: needsReliableErrors, do: checkReceiveErrors},
	{ID: "rnr", recorded: true, Title: "receives that come late, and never", needs: needsReliableErrors, do: checkRNR},
	{ID: "retries", recorded: true, Title: "a peer that does not answer", needs: needsReliableErrors, do: checkRetries},
	{ID: "qp-rights", recorded: true, Title: "operations that the peer's QP does not permit", needs: needsReliableErrors, do: checkQPRights},
	{ID: "flush", recorded: true, Title: "all requests of a QP in error complete, in order", do: checkFlush},
	{ID: "peer-death", Title: "a peer whose QP disappears with work under way", do: checkPeerDeath},
}

// needsReliableErrors excludes iWARP, where TCP repeats, and a peer's error ends the connection without
// completion of the request.
func needsReliableErrors(t *trial) string {
	if iwarp(t.dev) {
		return "iWARP ends the connection instead"
	}
	return ""
}

// fails posts a request and checks the status of its completion and the state of the QP.
func (l *link) fails(what string, wr verbs.SendWR, want ...verbs.WCStatus) {
	wr.ID = 77
	l.post(signaled(wr))
	wc := l.sends(1)[0]
	if wc.ID != 77 || wc.QPNum != l.qp.Num() {
		l.t.fail("%s: completion %+v, want ID 77 of QP %d", what, wc, l.qp.Num())
	}
	l.wantStatus(what, wc, want...)
	if iwarp(l.dev) {
		return // the state follows later
	}
	late := l.t.knownFault(abi.RDMA_DRIVER_RXE, "a failed QP enters ERR after its completion")
	for {
		attr, err := l.qp.Query()
		l.t.must("query the QP", err)
		if attr.State == verbs.QPErr {
			break
		}
		if !late || l.t.ctx.Err() != nil {
			l.t.fail("%s: the QP is in state %v, want %v", what, attr.State, verbs.QPErr)
		}
		time.Sleep(time.Millisecond)
	}
	var far verbs.QPState
	l.t.call("State", l.far, &far)
	l.t.note("%s: the QP of the far end is in state %v", what, far)
}

// wantStatus ends the check unless a completion has one of the statuses.
func (l *link) wantStatus(what string, wc verbs.WC, want ...verbs.WCStatus) {
	l.t.note("%s: %v, vendor error %#x", what, wc.Status, wc.VendorErr)
	for _, s := range want {
		if wc.Status == s {
			return
		}
	}
	l.t.fail("%s: status %v, want %v", what, wc.Status, want)
}

func checkRemoteErrors(t *trial) {
	for _, op := range []verbs.SendOpcode{verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd} {
		// siw completes a WRITE before the peer has checked it.
		if iwarp(t.dev) && op != verbs.OpRead || op == verbs.OpFetchAdd && !t.features.Atomics {
			continue
		}
		for _, c := range []struct {
			what  string
			spoil func(*link, *verbs.SendWR)
		}{
			{"an unknown key", func(_ *link, wr *verbs.SendWR) { wr.RKey ^= 0xffff00 }},
			{"memory behind the region", func(l *link, wr *verbs.SendWR) { wr.RemoteAddr = l.remote(int(l.memory.Length)) }},
			{"memory before the region", func(l *link, wr *verbs.SendWR) { wr.RemoteAddr = l.remote(-8) }},
		} {
			l := t.link(Config{})
			wr := verbs.SendWR{Opcode: op, SGList: l.elements([]piece{{0, 8}}), RemoteAddr: l.memory.Addr, RKey: l.memory.RKey}
			c.spoil(l, &wr)
			want := []verbs.WCStatus{verbs.WCRemAccessErr}
			if iwarp(t.dev) {
				want = append(want, verbs.WCRemOpErr, verbs.WCRemInvReqErr, verbs.WCGeneralErr, verbs.WCFatalErr, verbs.WCWRFlushErr)
			}
			l.fails(opName(op)+" of "+c.what, wr, want...)
		}
	}
}

// noOpcode is no operation of any transport.
const noOpcode = verbs.SendOpcode(14)

func checkLocalErrors(t *trial) {
	// The library refuses an unknown operation, so that it does not reach the device.
	l := t.link(Config{})
	n, err := l.qp.PostSend([]verbs.SendWR{signaled(l.write(piece{0, 8}, 0)), {Opcode: noOpcode}})
	t.note("post with an unknown operation: %d requests, %v", n, err)
	if n != 1 || err == nil {
		t.fail("post with an unknown operation as the second: %d requests, %v, want 1 and an error", n, err)
	}
	l.succeeded("request before an unknown operation", l.sends(1))
	l.send(l.write(piece{0, 8}, 0)) // everything else still works
	// The specification has the first status. Drivers also report the others.
	statuses := []verbs.WCStatus{verbs.WCLocProtErr, verbs.WCLocLenErr, verbs.WCLocQPOpErr}
	if t.knownFault(abi.RDMA_DRIVER_RXE, "a failed request is reported as flushed") {
		statuses = append(statuses, verbs.WCWRFlushErr)
	}
	for _, c := range []struct {
		what  string
		spoil func(*verbs.SGE)
	}{
		{"an unknown key", func(s *verbs.SGE) { s.LKey ^= 0xffff00 }},
		{"memory behind the region", func(s *verbs.SGE) { s.Addr += 64<<10 - 50 }},
	} {
		for _, op := range []verbs.SendOpcode{verbs.OpSend, verbs.OpWrite} {
			l := t.link(Config{})
			wr := l.write(piece{0, 100}, 0)
			wr.Opcode = op
			c.spoil(&wr.SGList[0])
			if op == verbs.OpSend {
				wr.RemoteAddr, wr.RKey = 0, 0
				l.farRecv(1, piece{0, 100})
			}
			l.fails(opName(op)+" of "+c.what, wr, statuses...)
		}
	}
}

// badOpcode is no opcode of a WQE of a ConnectX.
const badOpcode = 0x3f

// checkBadOpcode posts a WRITE whose opcode is replaced, and a WRITE behind it.
func checkBadOpcode(t *trial) {
	l := t.link(Config{})
	q, ok := l.qp.Provider().(interface {
		PostOpcode(wr *verbs.SendWR, opcode uint8) error
	})
	if !ok {
		t.fail("the driver does not post a request with another opcode")
	}
	l.store(0, guards(8))
	fillPattern(l.mr.Bytes()[:8], 1)
	wr := signaled(l.write(piece{0, 8}, 0))
	wr.ID = 77
	t.must("post a request with another opcode", q.PostOpcode(&wr, badOpcode))
	wr.ID++
	l.post(wr)
	wcs := l.sends(2)
	if wcs[0].ID != 77 || wcs[1].ID != 78 {
		t.fail("completions %+v, want IDs 77 and 78", wcs)
	}
	l.wantStatus(fmt.Sprintf("request with the opcode %#x", badOpcode), wcs[0], verbs.WCLocQPOpErr)
	l.wantStatus("request behind it", wcs[1], verbs.WCWRFlushErr)
	attr, err := l.qp.Query()
	t.must("query the QP", err)
	if attr.State != verbs.QPErr {
		t.fail("the QP is in state %v, want %v", attr.State, verbs.QPErr)
	}
	l.same("far memory", l.load(0, 8), guards(8))
}

func checkReceiveErrors(t *trial) {
	l := t.link(Config{})
	l.store(0, guards(200))
	l.farRecv(5, piece{margin, 10})
	sent, received := []verbs.WCStatus{verbs.WCRemInvReqErr}, []verbs.WCStatus{verbs.WCLocLenErr}
	if t.knownFault(abi.RDMA_DRIVER_RXE, "wrong status for a receive that is too short") {
		sent, received = append(sent, verbs.WCRemOpErr), append(received, verbs.WCLocQPOpErr)
	}
	l.fails("SEND of 100 bytes into 10", verbs.SendWR{Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, 100}})}, sent...)
	l.wantStatus("receive of 100 bytes into 10", l.farWait(false, 1)[0], received...)
	l.same("memory behind the receive", l.load(margin+10, 100), guards(100))
	l = t.link(Config{})
	t.call("Recv", RecvArgs{End: l.far, ID: 6, Pieces: []piece{{0, 200}}, Key: 0xffff00}, &struct{}{})
	l.fails("SEND into memory of an unknown key", verbs.SendWR{Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, 200}})}, verbs.WCRemOpErr) // short data could be in the completion
	// The specification has the first status. Drivers also report the second one.
	l.wantStatus("receive with an unknown key", l.farWait(false, 1)[0], verbs.WCLocProtErr, verbs.WCLocQPOpErr)
}

func checkRNR(t *trial) {
	l := t.link(Config{AckTimeout: time.Second})
	l.post(signaled(verbs.SendWR{Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, 8}})}))
	time.Sleep(100 * time.Millisecond)
	var wcs [1]verbs.WC
	if n, err := l.sendCQ.Poll(wcs[:]); n != 0 || err != nil {
		t.fail("SEND without a receive has completed: %+v, %v", wcs[0], err)
	}
	l.farRecv(1, piece{0, 8})
	l.succeeded("SEND before its receive", l.sends(1))
	l.farReceived(1)
	l = t.link(Config{AckTimeout: time.Second, RetryCount: 3, RNRRetryCount: 2})
	l.fails("SEND without a receive", verbs.SendWR{Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, 8}})}, verbs.WCRNRRetryExcErr)
}

func checkRetries(t *trial) {
	for _, op := range []verbs.SendOpcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead} {
		l := t.link(Config{AckTimeout: 10 * time.Millisecond, RetryCount: 2})
		l.t.call("Fail", l.far, &struct{}{})
		wr := l.write(piece{0, 8}, 0)
		wr.Opcode = op
		l.fails(opName(op)+" to a QP in error", wr, verbs.WCRetryExcErr)
	}
}

func checkFlush(t *trial) {
	const n = 32
	l := t.link(Config{})
	for i := range n {
		t.must("post a receive", l.recv(uint64(i), []piece{{0, 8}}))
	}
	t.must("move the QP to ERR", l.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
	for i := range n {
		wr := l.write(piece{0, 8}, 0)
		wr.ID = uint64(i)
		l.post(signaled(wr))
	}
	flushed := func(what string, cq *verbs.CQ) {
		wcs, err := wait(t.ctx, cq, n)
		t.must("wait for flushed "+what, err)
		for i := range wcs {
			if wcs[i].ID != uint64(i) || wcs[i].Status != verbs.WCWRFlushErr {
				t.fail("flushed %s %d: completion %+v, want ID %d flushed", what, i, wcs[i], i)
			}
		}
	}
	flushed("receives", l.recvCQ)
	flushed("sends", l.sendCQ)
}

func checkPeerDeath(t *trial) {
	const n = 40
	reads := !t.knownFault(abi.RDMA_DRIVER_SIW, "a READ can have two completions")
	for range 5 {
		l := t.link(Config{AckTimeout: 10 * time.Millisecond, RetryCount: 2, Memory: 128 << 10})
		for i := range n {
			wr := l.write(piece{0, 32 << 10}, 0)
			if reads && i%2 == 1 {
				wr = l.read(piece{64 << 10, 32 << 10}, 0)
			}
			wr.ID = uint64(i)
			l.post(signaled(wr))
		}
		l.t.call("Close", l.far, &struct{}{})
		good, seen := 0, map[uint64]bool{}
		for _, wc := range l.sends(n) {
			if seen[wc.ID] {
				t.fail("request %d has completed twice", wc.ID)
			}
			seen[wc.ID] = true
			if wc.Status == verbs.WCSuccess {
				good++
			}
		}
		t.note("%d of %d requests had completed before the end of the peer", good, n)
	}
}
