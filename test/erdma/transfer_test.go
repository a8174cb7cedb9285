// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"bytes"
	"slices"
	"testing"
)

// TestMessages executes each request that moves data, between two devices.
func TestMessages(t *testing.T) {
	a, b := newPair(t)
	from, to := a.r.reg(localRead|localWrite), b.r.reg(allRights)
	copy(a.r.bytes(from.addr, 8), "some data")
	imm := be.Uint32([]byte{1, 2, 3, 4})
	receive := func(n uint32) { b.recv(to, 100, n) }

	receive(8)
	a.post(sendOf(opSend, 0, from, 0, 8))
	want(t, a, completion{opcode: opSend})
	want(t, b, completion{queue: queueReceive, opcode: opReceive, size: 8})
	if got := b.r.bytes(to.addr+100, 8); !bytes.Equal(got, []byte("some dat")) {
		t.Errorf("received data = %q", got)
	}

	// Immediate data is in the order of the network in a request, and reversed in a completion.
	receive(8)
	a.post(sendOf(opSendImm, le.Uint32([]byte{1, 2, 3, 4}), from, 2, 3))
	want(t, a, completion{opcode: opSendImm, index: 1})
	want(t, b, completion{queue: queueReceive, opcode: opReceiveImm, index: 1, size: 3, imm: [4]byte(le.AppendUint32(nil, imm))})

	// Two blocks of inline data, which wrap around the end of the queue later.
	receive(100)
	data := bytes.Repeat([]byte("inline data "), 4)
	a.post(wqe{opSend, signaled | inline, len(data), slices.Concat(body(0, uint32(len(data))), data)})
	want(t, a, completion{opcode: opSend, index: 2})
	want(t, b, completion{queue: queueReceive, opcode: opReceive, index: 2, size: uint32(len(data))})
	if got := b.r.bytes(to.addr+100, len(data)); !bytes.Equal(got, data) {
		t.Errorf("received inline data = %q, want %q", got, data)
	}

	a.post(writeOf(opWrite, 0, from, to, 5))
	want(t, a, completion{opcode: opWrite, index: 4})
	if got := b.r.bytes(to.addr, 5); !bytes.Equal(got, []byte("some ")) {
		t.Errorf("written data = %q", got)
	}
	receive(0)
	a.post(writeOf(opWriteImm, le.Uint32([]byte{1, 2, 3, 4}), from, to, 7))
	want(t, a, completion{opcode: opWriteImm, index: 6})
	want(t, b, completion{queue: queueReceive, opcode: opReceiveWrite, index: 3, size: 7, imm: [4]byte(le.AppendUint32(nil, imm))})

	copy(b.r.bytes(to.addr, 9), "returned ")
	a.post(readOf(opRead, 0, to, from, 9))
	want(t, a, completion{opcode: opRead, index: 8, size: 9})
	if got := a.r.bytes(from.addr, 9); !bytes.Equal(got, []byte("returned ")) {
		t.Errorf("read data = %q", got)
	}

	le.PutUint64(b.r.bytes(to.addr, 8), 40)
	a.post(atomicOf(opFetchAdd, 2, 0, to, from))
	want(t, a, completion{opcode: opFetchAdd, index: 10, size: 8})
	a.post(atomicOf(opCompareSwap, 7, 41, to, from), atomicOf(opCompareSwap, 8, 42, to, from))
	want(t, a, completion{opcode: opCompareSwap, index: 12, size: 8})
	want(t, a, completion{opcode: opCompareSwap, index: 14, size: 8})
	if got, was := le.Uint64(b.r.bytes(to.addr, 8)), le.Uint64(a.r.bytes(from.addr, 8)); got != 8 || was != 42 {
		t.Errorf("word after atomic requests = %d, returned %d, want 8 and 42", got, was)
	}

	// A request that is not signaled has no completion.
	quiet := writeOf(opWrite, 0, from, to, 1)
	quiet.flags = 0
	a.post(quiet)
	if c := a.cq.poll(); c != nil {
		t.Errorf("completion of an unsignaled request = %+v, want none", c)
	}
	if c := b.cq.poll(); c != nil {
		t.Errorf("completion = %+v, want none", c)
	}
}

// TestLists gathers data from several SGEs, some of which are empty.
func TestLists(t *testing.T) {
	a, b := newPair(t)
	from, to := a.r.reg(localRead), b.r.reg(allRights)
	copy(a.r.bytes(from.addr, 26), "abcdefghijklmnopqrstuvwxyz")
	b.recv(to, 0, 100)
	a.post(wqe{opSend, signaled, 4, slices.Concat(body(0, 6), from.sge(0, 1), from.sge(1, 0), from.sge(24, 2), from.sge(3, 3))})
	want(t, a, completion{opcode: opSend})
	want(t, b, completion{queue: queueReceive, opcode: opReceive, size: 6})
	if got := b.r.bytes(to.addr, 6); !bytes.Equal(got, []byte("ayzdef")) {
		t.Errorf("gathered data = %q, want %q", got, "ayzdef")
	}
}

// TestSameDevice connects two QPs of one device.
func TestSameDevice(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.newQP(1), r.newQP(2)
	connect(t, a, b)
	m := r.reg(allRights)
	b.recv(m, 0, 10)
	a.post(sendOf(opSend, 0, m, 10, 10))
	want(t, a, completion{opcode: opSend})
	want(t, b, completion{queue: queueReceive, opcode: opReceive, size: 10})
}

// TestSendBeforeConnect posts a request at the server, which is in RTS first.
func TestSendBeforeConnect(t *testing.T) {
	f := New()
	client, server := newRig(t, f).newQP(1), newRig(t, f).newQP(2)
	to, from := client.r.reg(localWrite), server.r.reg(localRead)
	e := endpoints{sourcePort: [2]byte{1, 1}}
	client.recv(to, 0, 4)
	if st := server.modify(stateRTS, client.cookie, e.reversed()); st != statusOK {
		t.Fatalf("modify(server, RTS) = %d, want 0", st)
	}
	server.post(sendOf(opSend, 0, from, 0, 4))
	if c := server.cq.poll(); c != nil {
		t.Errorf("completion before the client is connected = %+v, want none", c)
	}
	if st := client.modify(stateRTS, server.cookie, e); st != statusOK {
		t.Fatalf("modify(client, RTS) = %d, want 0", st)
	}
	want(t, server, completion{opcode: opSend})
	want(t, client, completion{queue: queueReceive, opcode: opReceive, size: 4})
}

// TestPageLists reads memory through page lists of each number of levels.
func TestPageLists(t *testing.T) {
	a, b := newPair(t)
	from := b.r.alloc(8 * pageSize)
	for i := range b.r.bytes(from, 8*pageSize) {
		b.r.bytes(from, 8*pageSize)[i] = byte(i / 7)
	}
	// The pages are in reverse order.
	page := func(i uint64) uint64 { return from + (7-i)*pageSize }
	table := func(entries ...uint64) uint64 {
		at := b.r.alloc(pageSize)
		for i, e := range entries {
			le.PutUint64(b.r.bytes(at+8*uint64(i), 8), e)
		}
		return at
	}
	var all []uint64
	for i := range uint64(8) {
		all = append(all, page(i))
	}
	leaf := table(all...)
	const start, size = 0x7000_0123, 8*pageSize - 0x200
	to := a.r.alloc(8 * pageSize)
	direct := a.r.alloc(pageSize)
	for i := range uint64(8) {
		le.PutUint64(a.r.bytes(direct+8*i, 8), to+i*pageSize)
	}
	local := region{addr: to, key: a.r.regMR(mrNormal, localWrite, 1, to, 8*pageSize, 12<<27|1<<20|8, []uint64{direct})}
	// levels registers the memory with a list of several levels, in version 1 of the command.
	levels := func(n uint32, top uint64) uint32 {
		b.r.keys++
		b.r.must(0, 8, func(in []byte) {
			le.PutUint32(in[8:], 1<<31|1<<28|b.r.keys)
			le.PutUint32(in[12:], 1<<12|uint32(remoteRead)<<1)
			le.PutUint64(in[16:], start)
			le.PutUint32(in[24:], size)
			le.PutUint32(in[28:], 12<<27|n<<20|8)
			le.PutUint64(in[32:], top)
		})
		return b.r.keys << 8
	}
	for name, m := range map[string]region{
		"no table":     {addr: start, key: b.r.regMR(mrNormal, remoteRead, 1, start, 4*pageSize-0x200, 12<<27|4, all[:4])},
		"one level":    {addr: start, key: b.r.regMR(mrNormal, remoteRead, 1, start, size, 12<<27|1<<20|8, []uint64{leaf})},
		"two levels":   {addr: start, key: levels(2, table(leaf))},
		"three levels": {addr: start, key: levels(3, table(table(leaf)))},
	} {
		n := uint32(4*pageSize - 0x200)
		clear(a.r.bytes(to, 8*pageSize))
		a.post(readOf(opRead, 0, m, local, n))
		if c := a.cq.poll(); c == nil || c.status != statusOK {
			t.Fatalf("%s: completion = %+v, want success", name, c)
		}
		for i := range uint64(n) {
			at := 0x123 + i
			if got, want := a.r.bytes(to+i, 1)[0], b.r.bytes(page(at/pageSize)+at%pageSize, 1)[0]; got != want {
				t.Fatalf("%s: byte %d = %#x, want %#x", name, i, got, want)
			}
		}
	}
}

// TestFastRegistration registers memory by requests, and invalidates it in each way.
func TestFastRegistration(t *testing.T) {
	a, b := newPair(t)
	remote := a.r.reg(allRights)
	table := b.r.alloc(pageSize)
	data := b.r.alloc(2 * pageSize)
	le.PutUint64(b.r.bytes(table, 8), data+pageSize)
	le.PutUint64(b.r.bytes(table+8, 8), data)
	index := b.r.regMR(mrFast, allRights, 1, 0, 0, 12<<27|1<<20|8, []uint64{table}) >> 8
	next := uint32(0)
	register := func(inlineList bool) region {
		next++
		m := region{key: index<<8 | next, addr: 0x5000_0ff0}
		w := wqe{opRegMR, signaled, 0, body(uint32(m.addr), 0, 100, m.key, 2<<12|uint32(allRights)<<1|1<<6, 0)}
		if inlineList {
			w.body = slices.Concat(body(uint32(m.addr), 0, 100, m.key, 2<<12|uint32(allRights)<<1, 0, uint32(data+pageSize), 0, uint32(data), 0))
		}
		b.post(w)
		if c := b.cq.poll(); c == nil || c.status != statusOK || c.opcode != opRegMR {
			t.Fatalf("completion of REG_MR = %+v, want success", c)
		}
		clear(b.r.bytes(data, 2*pageSize))
		a.post(writeOf(opWrite, 0, remote, m, 100))
		if c := a.cq.poll(); c == nil || c.status != statusOK {
			t.Fatalf("completion of a WRITE = %+v, want success", c)
		}
		if !bytes.Equal(b.r.bytes(data+pageSize+0xff0, 16), a.r.bytes(remote.addr, 16)) || !bytes.Equal(b.r.bytes(data, 84), a.r.bytes(remote.addr+16, 84)) {
			t.Fatalf("WRITE to a registered region: wrong data")
		}
		return m
	}
	copy(a.r.bytes(remote.addr, 100), bytes.Repeat([]byte{9, 8, 7}, 40))
	m := register(false)
	b.post(wqe{opLocalInv, signaled, 0, body(0, 0, 0, m.key, 0, 0)})
	if c := b.cq.poll(); c == nil || c.status != statusOK {
		t.Fatalf("completion of LOCAL_INV = %+v, want success", c)
	}
	m = register(true)
	b.recv(region{}, 0, 0)
	a.post(wqe{opSendInv, signaled, 0, body(m.key, 0)})
	if c := b.cq.poll(); c == nil || c.opcode != opReceiveInv || be.Uint32(c.imm[:]) != m.key {
		t.Fatalf("completion of a receive = %+v, want key %#x", c, m.key)
	}
	if c := a.cq.poll(); c == nil || c.status != statusOK {
		t.Fatalf("completion of SEND_WITH_INV = %+v, want success", c)
	}
	m = register(false)
	b.post(readOf(opReadInv, m.key, remote, m, 4))
	if c := b.cq.poll(); c == nil || c.status != statusOK {
		t.Fatalf("completion of READ_WITH_INV = %+v, want success", c)
	}
	// The key is invalid now.
	a.post(writeOf(opWrite, 0, remote, m, 1))
	want(t, a, completion{opcode: opWrite, status: statusGeneral, index: uint32(a.sendPI - 2)})
}
