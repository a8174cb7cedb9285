// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/longtest"
	"purerdma/verbs"
)

// collectWC waits for n completions.
func collectWC(t *testing.T, cq *verbs.CQ, n int) []verbs.WC {
	t.Helper()
	var all []verbs.WC
	for len(all) < n {
		wcs := make([]verbs.WC, n-len(all))
		k, err := cq.Wait(within(t, 10*time.Second), wcs)
		if err != nil {
			t.Fatalf("Wait after %d of %d completions: %v", len(all), n, err)
		}
		all = append(all, wcs[:k]...)
	}
	return all
}

// TestIWARPOperations runs every operation that siw supports.
func TestIWARPOperations(t *testing.T) {
	r := newRig(t)
	server, client := r.connected()
	const all = verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite
	mr := func(id *cm.ID, n int) *verbs.MR {
		m, err := id.QP().PD().Alloc(n, all)
		r.ok(err)
		t.Cleanup(func() { m.Close() })
		return m
	}
	const size = 1 << 20
	here, there := mr(client, size), mr(server, size)
	for i := range here.Bytes() {
		here.Bytes()[i] = byte(i * 7)
	}
	post := func(wr verbs.SendWR) {
		t.Helper()
		wr.Flags |= verbs.SendSignaled
		if _, err := client.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatalf("PostSend of %v: %v", wr.Opcode, err)
		}
		completion(t, client.QP().SendCQ())
	}
	post(verbs.SendWR{Opcode: verbs.OpWrite, SGList: []verbs.SGE{here.SGE()}, RemoteAddr: there.Addr(), RKey: there.RKey()})
	back := mr(client, size)
	post(verbs.SendWR{Opcode: verbs.OpRead, SGList: []verbs.SGE{back.SGE()}, RemoteAddr: there.Addr(), RKey: there.RKey()})
	if !bytes.Equal(back.Bytes(), here.Bytes()) {
		t.Error("READ returned other bytes than the WRITE has written")
	}
	inline := bytes.Repeat([]byte("i"), 80)
	post(verbs.SendWR{Opcode: verbs.OpWrite, InlineData: inline, RemoteAddr: there.Addr() + 5, RKey: there.RKey()})
	post(verbs.SendWR{Opcode: verbs.OpRead, SGList: []verbs.SGE{back.Slice(0, 80)}, RemoteAddr: there.Addr() + 5, RKey: there.RKey()})
	if !bytes.Equal(back.Bytes()[:80], inline) {
		t.Errorf("READ after an inline WRITE = %q, want %q", back.Bytes()[:80], inline)
	}

	// Test sends with parts, inline, without data, fenced, and with invalidation.
	in := mr(server, 4096)
	got := func(want string) {
		t.Helper()
		wc := completion(t, server.QP().RecvCQ())
		if string(in.Bytes()[:wc.ByteLen]) != want || wc.Opcode != verbs.WCRecv || wc.QPNum != server.QP().Num() {
			t.Errorf("received %q, %+v, want %q", in.Bytes()[:wc.ByteLen], wc, want)
		}
	}
	copy(here.Bytes(), "onetwo")
	victim := mr(server, 4096)
	for _, c := range []struct {
		wr   verbs.SendWR
		want string
	}{
		{verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{here.Slice(3, 3), here.Slice(0, 3)}}, "twoone"},
		{verbs.SendWR{Opcode: verbs.OpSend, InlineData: inline}, string(inline)},
		{verbs.SendWR{Opcode: verbs.OpSend, InlineData: []byte{}}, ""},
		{verbs.SendWR{Opcode: verbs.OpSend}, ""},
		{verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendFence | verbs.SendSolicited, InlineData: []byte("fenced")}, "fenced"},
		{verbs.SendWR{Opcode: verbs.OpSendInv, SGList: []verbs.SGE{here.Slice(0, 3)}, InvalidateRKey: victim.RKey()}, "one"},
	} {
		receive(t, server.QP(), in)
		post(c.wr)
		got(c.want)
	}
	// A receive without space takes a message without data.
	if _, err := server.QP().PostRecv([]verbs.RecvWR{{}}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	post(verbs.SendWR{Opcode: verbs.OpSend})
	got("")

	sink := mr(client, 4096)
	post(verbs.SendWR{Opcode: verbs.OpReadInv, SGList: []verbs.SGE{sink.Slice(0, 80)}, RemoteAddr: there.Addr() + 5, RKey: there.RKey()})
	if !bytes.Equal(sink.Bytes()[:80], inline) {
		t.Errorf("READ with invalidation = %q, want %q", sink.Bytes()[:80], inline)
	}
	for _, c := range []struct {
		name string
		wr   verbs.SendWR
	}{
		{"an atomic", verbs.SendWR{Opcode: verbs.OpFetchAdd, SGList: []verbs.SGE{here.Slice(0, 8)}, RemoteAddr: there.Addr(), RKey: there.RKey()}},
		{"immediate data", verbs.SendWR{Opcode: verbs.OpSendImm}},
	} {
		if n, err := client.QP().PostSend([]verbs.SendWR{c.wr}); n != 0 || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("PostSend of %s = %d, %v, want ErrUnsupported", c.name, n, err)
		}
	}
	// The peer refuses access through the invalidated key.
	wr := verbs.SendWR{Opcode: verbs.OpRead, SGList: []verbs.SGE{back.Slice(0, 8)}, RemoteAddr: victim.Addr(), RKey: victim.RKey(), Flags: verbs.SendSignaled}
	if _, err := client.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	if wc := collectWC(t, client.QP().SendCQ(), 1)[0]; wc.Err() == nil {
		t.Error("READ with an invalidated key succeeded")
	}
}

// TestIWARPStream sends many messages in both directions at once through small queues. Most
// messages are unsignaled. After a missing doorbell the test hangs.
func TestIWARPStream(t *testing.T) {
	r := newRig(t)
	count := 2000
	if longtest.Enabled() {
		count = 20000
	}
	const window = 16
	conf := verbs.QPConfig{Cap: verbs.QPCap{SendWR: window - 1, RecvWR: 2 * window}} // fewer than a window, so that the queue gets full
	client := r.resolved()
	r.ok(client.CreateQP(nil, conf))
	server := r.requested(client, nil)
	r.ok(server.CreateQP(nil, conf))
	r.ok(server.Accept(nil))
	r.want(r.client, client, cm.EventEstablished, 0)
	r.want(r.server, server, cm.EventEstablished, 0)
	var wg sync.WaitGroup
	for _, side := range []*cm.ID{client, server} {
		qp := side.QP()
		in := alloc(t, qp.PD(), 4*2*window)
		for i := range 2 * window {
			_, err := qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGList: []verbs.SGE{in.Slice(4*i, 4)}}})
			r.ok(err)
		}
	}
	// Both sides send windows in turn, like ping-pong.
	for _, active := range []bool{true, false} {
		id := server
		if active {
			id = client
		}
		qp := id.QP()
		wg.Go(func() {
			in := alloc(t, qp.PD(), 64)
			wcs := make([]verbs.WC, window)
			wrs := make([]verbs.SendWR, window)
			sent, received := 0, 0
			for received < count || sent < count {
				for goal := min(sent+window, count); (active || received > sent) && sent < goal; {
					n := min(1+sent%5, goal-sent)
					for i := range n {
						wrs[i] = verbs.SendWR{ID: uint64(sent + i), Opcode: verbs.OpSend, InlineData: []byte{byte(sent + i), 1, 2, 3}}
						if (sent+i)%window == window-1 || sent+i == count-1 {
							wrs[i].Flags = verbs.SendSignaled
						}
					}
					k, err := qp.PostSend(wrs[:n])
					if err != nil && !errors.Is(err, verbs.ErrFull) {
						t.Errorf("PostSend: %v", err)
						return
					}
					sent += k
				}
				for goal := min(received+window, count); received < goal; {
					n, err := qp.RecvCQ().Wait(within(t, 60*time.Second), wcs)
					if err != nil {
						t.Errorf("Wait after %d of %d messages: %v", received, count, err)
						return
					}
					for _, wc := range wcs[:n] {
						if wc.Err() != nil || wc.ByteLen != 4 {
							t.Errorf("message %d: %+v, want success and 4 bytes", received, wc)
							return
						}
						if _, err := qp.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{in.Slice(0, 4)}}}); err != nil {
							t.Errorf("PostRecv: %v", err)
							return
						}
						received++
					}
				}
				for {
					n, err := qp.SendCQ().Poll(wcs)
					if err != nil {
						t.Errorf("Poll: %v", err)
						return
					}
					if n == 0 {
						break
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestIWARPFlush lets the peer end the connection. Everything posted is flushed in order,
// including work requests from before and after the event was fetched.
func TestIWARPFlush(t *testing.T) {
	r := newRig(t)
	server, client := r.connected()
	qp := client.QP()
	waiting := make(chan []verbs.WC, 1)
	recvs := func(ids ...uint64) {
		t.Helper()
		for _, id := range ids {
			if _, err := qp.PostRecv([]verbs.RecvWR{{ID: id}}); err != nil {
				t.Fatalf("PostRecv: %v", err)
			}
		}
	}
	recvs(1, 2)
	r.ok(server.Disconnect())
	time.Sleep(100 * time.Millisecond) // until the kernel has ended the connection
	recvs(3)
	sends := []verbs.SendWR{{ID: 11, Opcode: verbs.OpSend}, {ID: 12, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled}}
	if n, err := qp.PostSend(sends); n != 2 || err != nil {
		t.Fatalf("PostSend() = %d, %v, want 2", n, err)
	}
	go func() { waiting <- collectWC(t, qp.SendCQ(), 2) }()
	time.Sleep(50 * time.Millisecond)
	r.want(r.client, client, cm.EventDisconnected, 0)
	recvs(4)
	check := func(got []verbs.WC, want ...uint64) {
		t.Helper()
		for i, wc := range got {
			if wc.ID != want[i] || wc.Status != verbs.WCWRFlushErr || wc.QPNum != qp.Num() {
				t.Errorf("completion %d = %+v, want a flush of request %d", i, wc, want[i])
			}
		}
	}
	check(collectWC(t, qp.RecvCQ(), 4), 1, 2, 3, 4)
	check(<-waiting, 11, 12)
	if n, err := qp.PostSend(sends); n != 2 || err != nil {
		t.Fatalf("PostSend() after the end = %d, %v, want 2", n, err)
	}
	check(collectWC(t, qp.SendCQ(), 2), 11, 12)
}

// TestIWARPSRQ takes the receives of two connections from one SRQ, which is closed after them.
func TestIWARPSRQ(t *testing.T) {
	r := newRig(t)
	var srq *verbs.SRQ
	var clients, servers []*cm.ID
	for range 2 {
		client := r.withQP(r.resolved())
		server := r.requested(client, nil)
		pd, err := server.Device().DefaultPD()
		r.ok(err)
		if srq == nil {
			srq, err = pd.CreateSRQ(verbs.SRQConfig{MaxWR: 5, MaxSGE: 2})
			r.ok(err)
			if a, err := srq.Query(); err != nil || a.MaxWR != 8 {
				t.Errorf("SRQ.Query() = %+v, %v, want MaxWR 8", a, err)
			}
		}
		r.ok(server.CreateQP(pd, verbs.QPConfig{SRQ: srq}))
		r.ok(server.Accept(nil))
		r.want(r.client, client, cm.EventEstablished, 0)
		r.want(r.server, server, cm.EventEstablished, 0)
		clients, servers = append(clients, client), append(servers, server)
	}
	t.Cleanup(func() {
		servers[0].Close()
		servers[1].Close()
		if err := srq.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	buf := alloc(t, servers[0].QP().PD(), 4096)
	for round := range 20 {
		for i := range 2 {
			if _, err := srq.PostRecv([]verbs.RecvWR{{ID: uint64(2*round + i), SGList: []verbs.SGE{buf.Slice(64*i, 64)}}}); err != nil {
				t.Fatalf("PostRecv: %v", err)
			}
		}
		for i, c := range clients {
			if _, err := c.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("shared")}}); err != nil {
				t.Fatalf("PostSend: %v", err)
			}
			completion(t, c.QP().SendCQ())
			if wc := completion(t, servers[i].QP().RecvCQ()); wc.ID != uint64(2*round+i) || string(buf.Bytes()[64*i:][:wc.ByteLen]) != "shared" {
				t.Errorf("round %d: completion = %+v, want \"shared\" in the posted receive", round, wc)
			}
		}
	}
	if _, err := servers[0].QP().PostRecv([]verbs.RecvWR{{}}); err == nil {
		t.Error("PostRecv on a QP with an SRQ = nil, want an error")
	}
	// The receives of the SRQ stay posted when a connection ends.
	if _, err := srq.PostRecv([]verbs.RecvWR{{ID: 77, SGList: []verbs.SGE{buf.Slice(0, 64)}}}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	r.ok(clients[0].Disconnect())
	r.want(r.client, clients[0], cm.EventDisconnected, 0)
	r.want(r.server, servers[0], cm.EventDisconnected, 0)
	if _, err := clients[1].QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, InlineData: []byte("x")}}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	if wc := completion(t, servers[1].QP().RecvCQ()); wc.ID != 77 {
		t.Errorf("completion = %+v, want receive 77", wc)
	}
}
