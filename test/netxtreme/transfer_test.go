// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"bytes"
	"testing"
	"time"
)

// fill writes a pattern.
func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*7 + seed
	}
}

func TestSend(t *testing.T) {
	a, b := pair(t)
	fill(a.r.bytes(a.memory, 5000), 1)
	for i := range 3 * int(a.depth) {
		b.postReceive(b.memory+100, b.key, 6000)
		a.send(flagSignaled, 0, 5000)
		e := b.cq.want(completeReceive, statusOK)
		if n := le.Uint32(e); n != 5000 || le.Uint64(e[8:]) != 0xabc0 || le.Uint32(e[0x1c:]) != uint32(i)%a.depth {
			t.Fatalf("completion %d = %x, want 5000 bytes for receive %d", i, e, uint32(i)%a.depth)
		}
		s := a.cq.want(completeRequest, statusOK)
		if c := le.Uint16(s[8:]); uint32(c) != (uint32(i)+1)%a.depth {
			t.Fatalf("completion %d: consumer index %d, want %d", i, c, (uint32(i)+1)%a.depth)
		}
		for _, q := range []*rigQP{a, b} {
			q.r.ringDoorbell(q.dpi, doorbellCQ, q.cq.n, q.cq.ci%q.cq.depth)
		}
	}
	if !bytes.Equal(a.r.bytes(a.memory, 5000), b.r.bytes(b.memory+100, 5000)) {
		t.Error("the data differ")
	}
}

func TestImmediateAndInline(t *testing.T) {
	a, b := pair(t)
	b.postReceive(b.memory, b.key, 100)
	w := header(opSendImm, flagInline, 3, 0x12345678, 5)
	a.post(append(w, "hello"...), 5)
	e := b.cq.want(completeReceive, statusOK)
	if le.Uint32(e[4:]) != 0x12345678 || e[0x1a] != 2 || string(b.r.bytes(b.memory, 5)) != "hello" {
		t.Errorf("completion %x with data %q, want immediate data and hello", e, b.r.bytes(b.memory, 5))
	}
	if e := a.cq.poll(); e != nil {
		t.Errorf("completion %x of an unsignaled request", e)
	}
	b.postReceive(b.memory, b.key, 100)
	w = header(opWriteImm, flagSignaled, 3, 77, 300)
	le.PutUint64(w[16:], b.memory+1000)
	le.PutUint32(w[24:], b.key)
	fill(a.r.bytes(a.memory, 300), 5)
	a.post(sge(w, a.memory, a.key, 300), 300)
	a.cq.want(completeRequest, statusOK)
	if e := b.cq.want(completeReceive, statusOK); le.Uint32(e) != 300 || le.Uint32(e[4:]) != 77 || e[0x1a] != 0xa {
		t.Errorf("completion %x, want a WRITE of 300 bytes with immediate data", e)
	}
	if !bytes.Equal(a.r.bytes(a.memory, 300), b.r.bytes(b.memory+1000, 300)) {
		t.Error("the data differ")
	}
}

func TestReadAndAtomics(t *testing.T) {
	a, b := pair(t)
	fill(b.r.bytes(b.memory, 9000), 9)
	w := header(opRead, flagSignaled, 4, 0, 9000)
	le.PutUint64(w[16:], b.memory)
	le.PutUint32(w[24:], b.key)
	a.post(sge(sge(w, a.memory+10, a.key, 4000), a.memory+20000, a.key, 5000), 9000)
	a.cq.want(completeRequest, statusOK)
	got := append(bytes.Clone(a.r.bytes(a.memory+10, 4000)), a.r.bytes(a.memory+20000, 5000)...)
	if !bytes.Equal(got, b.r.bytes(b.memory, 9000)) {
		t.Error("the data differ")
	}
	word := b.r.bytes(b.memory+64, 8)
	le.PutUint64(word, 40)
	atomic := func(op uint8, addr, swap, compare uint64) {
		w := make([]byte, 2*slotSize)
		w[0], w[1] = op, flagSignaled
		le.PutUint32(w[4:], b.key)
		le.PutUint64(w[8:], addr)
		le.PutUint64(w[16:], swap)
		le.PutUint64(w[24:], compare)
		a.post(sge(w, a.memory, a.key, 8), 8)
	}
	atomic(opFetchAdd, b.memory+64, 2, 0)
	a.cq.want(completeRequest, statusOK)
	if old, now := le.Uint64(a.r.bytes(a.memory, 8)), le.Uint64(word); old != 40 || now != 42 {
		t.Errorf("fetch and add returned %d and left %d, want 40 and 42", old, now)
	}
	atomic(opCompareSwap, b.memory+64, 7, 41)
	a.cq.want(completeRequest, statusOK)
	if now := le.Uint64(word); now != 42 {
		t.Errorf("compare and swap with another value left %d, want 42", now)
	}
	atomic(opCompareSwap, b.memory+64, 7, 42)
	a.cq.want(completeRequest, statusOK)
	if now := le.Uint64(word); now != 7 {
		t.Errorf("compare and swap left %d, want 7", now)
	}
	atomic(opFetchAdd, b.memory+65, 1, 0)
	a.cq.want(completeRequest, statusRemoteInvalid)
	a.cq.want(completeTerminal, 0)
	b.cq.want(completeTerminal, 0)
}

// TestRNR sends before there is a receive, within the number of repetitions and beyond it.
func TestRNR(t *testing.T) {
	a, b := pair(t)
	a.send(flagSignaled, 0, 10)
	b.postReceive(b.memory, b.key, 100)
	wait(t, a)
	a.cq.want(completeRequest, statusOK)
	b.cq.want(completeReceive, statusOK)
	a.send(flagSignaled, 0, 10)
	wait(t, a)
	a.cq.want(completeRequest, statusRNRRetries)
	a.cq.want(completeTerminal, 0)
	if e := a.r.event(); e[9] != eventQPError || e[3] != reasonRNR || le.Uint32(e[4:]) != a.n {
		t.Errorf("event %x, want the reason of RNR NAKs", e)
	}
	if e := b.cq.poll(); e != nil {
		t.Errorf("completion %x of the peer", e)
	}
}

// TestSilence sends to a QP that was reset.
func TestSilence(t *testing.T) {
	a, b := pair(t)
	b.modify(stateReset, 0, nil)
	a.send(0, 0, 10)
	wait(t, a)
	a.cq.want(completeRequest, statusRetries)
	a.cq.want(completeTerminal, 0)
}

// wait waits until the device has completed all requests of a QP.
func wait(t *testing.T, q *rigQP) {
	t.Helper()
	for range 5000 {
		q.r.d.fabric.Lock()
		done := q.r.d.qps[q.n].send.posted() == 0
		q.r.d.fabric.Unlock()
		if done {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the requests have not completed")
}

// TestRemoteErrors sends requests that the peer refuses.
func TestRemoteErrors(t *testing.T) {
	write := func(a, b *rigQP, addr uint64, key, n uint32) {
		w := header(opWrite, 0, 3, 0, n)
		le.PutUint64(w[16:], addr)
		le.PutUint32(w[24:], key)
		a.post(sge(w, a.memory, a.key, n), int(n))
	}
	for name, tc := range map[string]struct {
		run           func(a, b *rigQP)
		status, event uint8
		receive       uint8 // status of the receive, or 0
	}{
		"missing key":    {func(a, b *rigQP) { write(a, b, b.memory, b.key+1, 8) }, statusRemoteAccess, peerRxKey, 0},
		"beyond the end": {func(a, b *rigQP) { write(a, b, b.memory+rigMemory-7, b.key, 8) }, statusRemoteAccess, peerRxKey + uint8(badRange), 0},
		"beyond the end in its page": {func(a, b *rigQP) {
			key := b.r.region(b.memory, 100, localWrite|remoteWrite)
			write(a, b, b.memory+93, key, 8)
		}, statusRemoteAccess, peerRxKey + uint8(badRange), 0},
		"no right": {func(a, b *rigQP) { write(a, b, b.memory, b.r.region(b.memory, pageSize, localWrite|remoteRead), 8) },
			statusRemoteAccess, peerRxKey + uint8(badRight), 0},
		"other PD": {func(a, b *rigQP) { b.r.d.mrs[b.key>>8].pd = 8; write(a, b, b.memory, b.key, 8) },
			statusRemoteAccess, peerRxKey + uint8(badDomain), 0},
		"short receive": {func(a, b *rigQP) { b.postReceive(b.memory, b.key, 5); a.send(0, 0, 6) }, statusRemoteInvalid, peerTooLong, statusReceiveLen},
		"receive key":   {func(a, b *rigQP) { b.postReceive(b.memory, b.key+1, 50); a.send(0, 0, 6) }, statusRemoteOp, peerMemory, statusReceiveMem},
		"not allowed": {func(a, b *rigQP) { b.r.d.qps[b.n].access = 1; write(a, b, b.memory, b.key, 8) },
			statusRemoteInvalid, peerUnsupported, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			tc.run(a, b)
			a.cq.want(completeRequest, tc.status)
			a.cq.want(completeTerminal, 0)
			if tc.receive != 0 {
				b.cq.want(completeReceive, tc.receive)
			}
			b.cq.want(completeTerminal, 0)
			if e := b.r.event(); e[9] != eventQPError || e[11] != tc.event || le.Uint32(e[4:]) != b.n {
				t.Errorf("event %x, want reason %#x", e, tc.event)
			}
		})
	}
}

// TestDatagrams sends datagrams between QPs of UD.
func TestDatagrams(t *testing.T) {
	f := New()
	a, b := newRig(t, f).qp(typeUD), newRig(t, f).qp(typeUD)
	for _, q := range []*rigQP{a, b} {
		q.modify(stateInit, setQKey, func(in []byte) { le.PutUint32(in[0x1c:], 0x11) })
		q.modify(stateRTR, 0, nil)
		q.modify(stateRTS, 0, nil)
	}
	source, _ := a.r.address(1)
	_, to := b.r.address(2)
	handle := a.r.must(0x15, 0x40, func(in []byte) {
		copy(in[0x18:], to[:])
		in[0x28], in[0x29] = networkIPv4, 64
		le.PutUint16(in[0x2a:], uint16(source))
		le.PutUint32(in[0x30:], 7)
	})
	b.postReceive(b.memory, b.key, 1000)
	fill(a.r.bytes(a.memory, 500), 3)
	send := func(key uint32) {
		w := header(opSend, flagSignaled, 3, 0, 500)
		le.PutUint32(w[12:], key)
		le.PutUint32(w[16:], b.n)
		le.PutUint32(w[20:], handle)
		a.post(sge(w, a.memory, a.key, 500), 500)
		a.cq.want(completeRequest, statusOK)
	}
	send(0x12) // another Q_Key
	if e := b.cq.poll(); e != nil {
		t.Errorf("completion %x of a datagram with another Q_Key", e)
	}
	send(0x11)
	e := b.cq.want(completeDatagram, statusOK)
	if le.Uint16(e) != 540 || le.Uint16(e[22:]) != uint16(a.n) || !bytes.Equal(e[16:22], []byte{1, 2, 3, 4, 5, 6}) || e[0x1a] != networkIPv4<<4 {
		t.Errorf("completion %x, want 540 bytes from QP %#x", e, a.n)
	}
	head := b.r.bytes(b.memory, 40)
	if head[20] != 0x45 || !bytes.Equal(head[32:36], []byte{10, 0, 0, 1}) || !bytes.Equal(head[36:], []byte{10, 0, 0, 2}) {
		t.Errorf("header %x, want one from 10.0.0.1 to 10.0.0.2", head)
	}
	if !bytes.Equal(b.r.bytes(b.memory+40, 500), a.r.bytes(a.memory, 500)) {
		t.Error("the data differ")
	}
	send(0x11) // without a receive
	if e := b.cq.poll(); e != nil {
		t.Errorf("completion %x without a receive", e)
	}
}

// TestArm arms a CQ before and after completions.
func TestArm(t *testing.T) {
	a, b := pair(t)
	notified := func() int {
		b.r.d.fabric.Lock()
		defer b.r.d.fabric.Unlock()
		return int(b.r.d.nqs[b.r.nq].pi)
	}
	arm := func(kind uint32) { b.r.ringDoorbell(b.dpi, kind, b.cq.n, b.cq.ci%b.cq.depth) }
	deliver := func(flags uint8) {
		b.postReceive(b.memory, b.key, 100)
		a.send(flags, 0, 1)
	}
	step := func(name string, want int) {
		t.Helper()
		if n := notified(); n != want {
			t.Fatalf("%s: %d notifications, want %d", name, n, want)
		}
	}
	deliver(0)
	step("not armed", 0)
	arm(doorbellCQArmAll)
	step("armed after a completion", 1)
	if len(b.r.vectors) == 0 || b.r.vectors[len(b.r.vectors)-1] != 2 {
		t.Errorf("interrupts = %v, want vector 2 at last", b.r.vectors)
	}
	b.cq.want(completeReceive, 0)
	arm(doorbellCQArmAll)
	step("armed without a completion", 1)
	deliver(0)
	step("armed", 2)
	deliver(0)
	step("armed for one", 2)
	b.cq.want(completeReceive, 0)
	b.cq.want(completeReceive, 0)
	arm(doorbellCQArmSE)
	deliver(0)
	step("solicited only", 2)
	deliver(flagSolicited)
	step("solicited", 3)
	b.r.must(0x02, 0x18, func(in []byte) { le.PutUint32(in[0x10:], b.n) })
	if e := b.r.exec(0x0a, 0x18, func(in []byte) { le.PutUint32(in[0x10:], b.cq.n) }); le.Uint16(e[0xc:]) != 3 {
		t.Errorf("DESTROY_CQ = %x, want 3 notifications", e)
	}
}

// TestFullAtTheEnd ends more QPs of a CQ than it has room for.
func TestFullAtTheEnd(t *testing.T) {
	a, _ := pair(t)
	small := a.r.cq(3, 2)
	for range 3 {
		q := a.r.qp(typeRC, func(in []byte) {
			le.PutUint32(in[0x30:], small.n)
			le.PutUint32(in[0x34:], small.n)
		})
		q.modify(stateInit, 0, nil)
		q.modify(stateError, 0, nil)
	}
	small.want(completeTerminal, 0)
	small.want(completeTerminal, 0)
	if e := small.poll(); e != nil {
		t.Errorf("a third completion %x of a CQ of two", e)
	}
}

// TestSRQ takes receives from an SRQ, and reports its limit.
func TestSRQ(t *testing.T) {
	f := New()
	ra, rb := newRig(t, f), newRig(t, f)
	ring := rb.alloc(16 * receiveSize)
	n := rb.must(0x05, 0x38, func(in []byte) {
		le.PutUint64(in[0x10:], 0x5151)
		le.PutUint16(in[0x1a:], rb.nq)
		le.PutUint16(in[0x1c:], 16)
		le.PutUint32(in[0x20:], 3)
		le.PutUint32(in[0x24:], 7)
		le.PutUint64(in[0x28:], ring)
	})
	a, b := ra.qp(typeRC), rb.qp(typeRC, func(in []byte) {
		in[0x18] |= flagSRQ
		le.PutUint32(in[0x38:], n)
	})
	connect(a, b)
	for i := range uint32(3) {
		w := rb.bytes(ring+uint64(i)*receiveSize, receiveSize)
		w[0], w[2] = 0x80, 3
		le.PutUint32(w[8:], 10+i)
		copy(w[2*slotSize:], sge(nil, b.memory, b.key, 64))
	}
	rb.ringDoorbell(3, doorbellSRQ, n, 3)
	rb.ringDoorbell(3, doorbellSRQArm, n, 2)
	query := func() uint16 {
		side := rb.alloc(pageSize)
		rb.must(0x08, 0x18, func(in []byte) {
			in[6] = 2
			le.PutUint64(in[8:], side)
			le.PutUint32(in[0x10:], n)
		})
		return le.Uint16(rb.bytes(side+12, 2))
	}
	if l := query(); l != 2 {
		t.Errorf("limit = %d, want 2", l)
	}
	for i := range uint32(2) {
		a.send(0, 0, 8)
		if e := b.cq.want(completeReceive, 0); le.Uint32(e[0x1c:]) != 10+i || e[0x1a] != 1 {
			t.Errorf("completion %x, want tag %d of an SRQ", e, 10+i)
		}
	}
	if e := rb.bytes(rb.nqAddr, entrySize); e[0] != notifySRQ || e[1] != 1 || le.Uint32(e[4:]) != 0x5151 || e[8] != 1 {
		t.Errorf("notification %x, want one of the limit", e)
	}
	if l := query(); l != 0 {
		t.Errorf("limit after the event = %d, want 0", l)
	}
}

// TestResize moves a CQ to a larger ring.
func TestResize(t *testing.T) {
	a, b := pair(t)
	b.postReceive(b.memory, b.key, 100)
	a.send(0, 0, 1)
	ring := b.r.alloc(256 * cqeSize)
	b.r.must(0x0c, 0x28, func(in []byte) {
		le.PutUint32(in[0x10:], b.cq.n)
		le.PutUint32(in[0x14:], 256<<5)
		le.PutUint64(in[0x18:], ring)
	})
	b.postReceive(b.memory, b.key, 100)
	a.send(0, 0, 2)
	if e := b.cq.want(completeReceive, 0); le.Uint32(e) != 1 {
		t.Errorf("completion %x in the old ring, want the first one", e)
	}
	b.cq.want(completeCutoff, 0)
	b.cq.addr, b.cq.depth, b.cq.ci = ring, 256, 0
	b.r.ringDoorbell(b.dpi, doorbellCutoffAck, b.cq.n, 0)
	if e := b.cq.want(completeReceive, 0); le.Uint32(e) != 2 {
		t.Errorf("completion %x in the new ring, want the second one", e)
	}
}

// TestWindow binds and invalidates a memory window of type 2.
func TestWindow(t *testing.T) {
	a, b := pair(t)
	key := b.r.must(0x0d, 0x20, func(in []byte) {
		in[0x18] = keyWindow2B
		le.PutUint32(in[0x1c:], 7)
	}) | 5
	w := header(opBind, flagSignaled, 2, 0, 0)
	w[2], w[4] = uint8(remoteWrite), 2
	le.PutUint32(w[8:], b.key)
	le.PutUint32(w[12:], key)
	le.PutUint64(w[16:], b.memory+100)
	le.PutUint32(w[24:], 50)
	b.post(w, -1)
	b.cq.want(completeRequest, statusOK)
	write := func(addr uint64) {
		w := header(opWrite, flagSignaled|flagInline, 3, 0, 4)
		le.PutUint64(w[16:], addr)
		le.PutUint32(w[24:], key)
		a.post(append(w, "abcd"...), 4)
	}
	write(b.memory + 146)
	a.cq.want(completeRequest, statusOK)
	if got := b.r.bytes(b.memory+146, 4); string(got) != "abcd" {
		t.Errorf("data = %q, want abcd", got)
	}
	inv := header(opLocalInv, flagSignaled, 2, key, 0)
	b.post(inv, -1)
	b.cq.want(completeRequest, statusOK)
	write(b.memory + 100)
	a.cq.want(completeRequest, statusRemoteAccess)
}

// TestFastRegister registers memory by a request.
func TestFastRegister(t *testing.T) {
	a, b := pair(t)
	key := b.r.must(0x0d, 0x20, func(in []byte) {
		in[0x18] = keyPhysical
		le.PutUint32(in[0x1c:], 7)
	}) | 9
	table := b.r.alloc(pageSize)
	le.PutUint64(b.r.bytes(table, 8), b.memory+pageSize|1)
	le.PutUint64(b.r.bytes(table+8, 8), b.memory|1)
	w := make([]byte, 2*slotSize)
	w[0], w[1], w[2], w[15] = opFastReg, flagSignaled, uint8(localWrite|remoteWrite), 1<<6
	le.PutUint32(w[4:], key)
	le.PutUint32(w[8:], 2*pageSize)
	le.PutUint64(w[16:], table)
	le.PutUint64(w[24:], 0x7000_0000)
	b.post(w, -1)
	b.cq.want(completeRequest, statusOK)
	x := header(opWrite, flagSignaled|flagInline, 3, 0, 4)
	le.PutUint64(x[16:], 0x7000_0000+pageSize-2)
	le.PutUint32(x[24:], key)
	a.post(append(x, "abcd"...), 4)
	a.cq.want(completeRequest, statusOK)
	if got := string(b.r.bytes(b.memory+2*pageSize-2, 2)) + string(b.r.bytes(b.memory, 2)); got != "abcd" {
		t.Errorf("data = %q, want abcd", got)
	}
	b.post(header(opLocalInv, flagSignaled, 2, key, 0), -1)
	b.cq.want(completeRequest, statusOK)
	le.PutUint32(w[4:], key+1)
	b.post(w, -1)
	b.cq.want(completeRequest, statusOK)
	b.post(w, -1) // registered already
	b.cq.want(completeRequest, statusMemory)
	b.cq.want(completeTerminal, 0)
	a.post(append(x, "abcd"...), 4) // with the old key, and to a QP in the error state
	wait(t, a)
	a.cq.want(completeRequest, statusRetries)
}

// TestInvalidatedRegion writes to a region that a request has invalidated.
func TestInvalidatedRegion(t *testing.T) {
	a, b := pair(t)
	b.r.d.mrs[b.key>>8].kind = keyPhysical
	b.post(header(opLocalInv, flagSignaled, 2, b.key, 0), -1)
	b.cq.want(completeRequest, statusOK)
	w := header(opWrite, flagSignaled|flagInline, 3, 0, 4)
	le.PutUint64(w[16:], b.memory)
	le.PutUint32(w[24:], b.key)
	a.post(append(w, "abcd"...), 4)
	a.cq.want(completeRequest, statusRemoteAccess)
}

// TestPSN sends to a peer that expects another PSN.
func TestPSN(t *testing.T) {
	a, b := pair(t)
	b.postReceive(b.memory, b.key, 10)
	b.r.d.qps[b.n].receivePSN++
	a.send(0, 0, 1)
	wait(t, a)
	a.cq.want(completeRequest, statusRetries)
	if e := b.cq.poll(); e != nil {
		t.Errorf("completion %x of the peer, want none", e)
	}
}

// TestTwoCQs moves a QP with two CQs to the error state.
func TestTwoCQs(t *testing.T) {
	r := newRig(t, nil)
	receives := r.cq(3, 16)
	q := r.qp(typeRC, func(in []byte) { le.PutUint32(in[0x34:], receives.n) })
	q.modify(stateInit, 0, nil)
	q.modify(stateError, 0, nil)
	q.cq.want(completeTerminal, 0)
	receives.want(completeTerminal, 0)
	q.modify(stateError, 0, nil)
	if e := q.cq.poll(); e != nil {
		t.Errorf("completion %x of a QP that was in the error state", e)
	}
}

// TestLocalErrors posts requests whose memory is wrong.
func TestLocalErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		post   func(q *rigQP)
		status uint8
	}{
		"key":           {func(q *rigQP) { q.post(sge(header(opSend, 0, 3, 0, 8), q.memory, q.key+1, 8), 8) }, statusLocalProtection},
		"length":        {func(q *rigQP) { q.post(sge(header(opSend, 0, 3, 0, 9), q.memory, q.key, 8), 9) }, statusLocalLength},
		"inline length": {func(q *rigQP) { q.post(header(opSend, flagInline, 3, 0, 17), 17) }, statusLocalQPOp},
		"inline READ":   {func(q *rigQP) { q.post(header(opRead, flagInline, 3, 0, 8), 8) }, statusLocalQPOp},
		"reserved key":  {func(q *rigQP) { q.post(sge(header(opSend, 0, 3, 0, 8), q.memory, reservedLKey, 8), 8) }, statusLocalProtection},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			b.postReceive(b.memory, b.key, 100)
			tc.post(a)
			a.cq.want(completeRequest, tc.status)
			a.cq.want(completeTerminal, 0)
			if e := b.cq.poll(); e != nil {
				t.Errorf("completion %x of the peer, want none", e)
			}
		})
	}
}

// TestStatistics reads the counters of errors.
func TestStatistics(t *testing.T) {
	a, _ := pair(t)
	a.send(0, 0, 1)
	wait(t, a)
	a.r.event()
	side := a.r.alloc(pageSize)
	a.r.must(0x8e, 0x18, func(in []byte) {
		in[6] = roceStatisticsSize / entrySize
		le.PutUint64(in[8:], side)
	})
	counter := func(off uint64) uint64 { return le.Uint64(a.r.bytes(side+off, 8)) }
	if n := counter(countRNR); n != 3 {
		t.Errorf("%d RNR NAKs, want 3", n)
	}
	if n := counter(countActiveQPs); n != 1 {
		t.Errorf("%d active QPs, want 1", n)
	}
}

// TestTraffic checks the counters of the packets of a WRITE and a READ. INITIALIZE_FW has the number of the
// block of counters.
func TestTraffic(t *testing.T) {
	a, b := pair(t)
	block := func(r *rig) []byte {
		addr := r.alloc(statisticsSize)
		n := le.Uint32(r.hwrm(0xb0, func(in []byte) {
			le.PutUint64(in[0x10:], addr)
			le.PutUint16(in[0x1e:], statisticsSize)
		})[8:])
		r.must(0x80, 0x70, func(in []byte) { le.PutUint32(in[0x6c:], n) })
		return r.bytes(addr, statisticsSize)
	}
	one, two := block(a.r), block(b.r)
	for _, op := range []uint8{opWrite, opRead} {
		w := header(op, flagSignaled, 3, 0, 3000)
		le.PutUint64(w[16:], b.memory)
		le.PutUint32(w[24:], b.key)
		a.post(sge(w, a.memory, a.key, 3000), 3000)
		a.cq.want(completeRequest, statusOK)
	}
	const packets, bytes = 4, 3000 + 4*packetOverhead // each side sends three packets of data, and a request or an answer
	for name, n := range map[string][2]uint64{
		"sent":     {le.Uint64(one[countTx:]), le.Uint64(one[countTxBytes:])},
		"received": {le.Uint64(one[countRx:]), le.Uint64(one[countRxBytes:])},
		"peer":     {le.Uint64(two[countTx:]), le.Uint64(two[countTxBytes:])},
	} {
		if n != [2]uint64{packets, bytes} {
			t.Errorf("%s: packets and bytes = %d, want %d and %d", name, n, packets, bytes)
		}
	}
}
