// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/verbs"
)

// TestStats makes connections with every outcome, and compares the counts of the Host, the listener and
// a connection with them.
func TestStats(t *testing.T) {
	onAnyKernel(t, func(t *testing.T, host *verbs.Host, server, client netip.Addr) {
		if host == nil {
			host = &verbs.Host{Drivers: verbs.DefaultHost().Drivers} // without the connections of other tests
		}
		ctx := within(t, time.Minute)
		before := cm.StatsOf(host)
		ln := listenOn(t, cm.ListenConfig{Host: host, MaxConns: 2, MaxConnsPerAddr: -1}, netip.AddrPortFrom(server, 0).String())
		defer ln.Close()
		dialer := &cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0))}
		type result struct {
			conn *cm.Conn
			err  error
		}
		dial := func() chan result {
			c := make(chan result, 1)
			go func() {
				conn, err := dialer.Dial(ctx, "tcp", ln.Addr().String())
				c <- result{conn, err}
			}()
			return c
		}
		request := func() *cm.Request {
			t.Helper()
			req, err := ln.Accept(ctx)
			if err != nil {
				t.Fatalf("Listener.Accept: %v", err)
			}
			return req
		}

		// A connection, on which the dialing side writes and sends.
		d := dial()
		req := request()
		inbox, err := req.Alloc(4096, verbs.LocalWrite|verbs.RemoteWrite)
		if err != nil {
			t.Fatalf("Request.Alloc: %v", err)
		}
		if err := req.PostRecv(1, inbox.Slice(0, 100)); err != nil {
			t.Fatalf("Request.PostRecv: %v", err)
		}
		peer, err := req.Accept(ctx, nil, nil)
		if err != nil {
			t.Fatalf("Request.Accept: %v", err)
		}
		defer peer.Close()
		r := <-d
		if r.err != nil {
			t.Fatalf("Dialer.Dial: %v", r.err)
		}
		defer r.conn.Close()
		mem, err := r.conn.Alloc(4096, verbs.LocalWrite)
		if err != nil {
			t.Fatalf("Conn.Alloc: %v", err)
		}
		if err := errors.Join(r.conn.Send(ctx, mem.Slice(0, 10)), r.conn.Write(ctx, mem.Slice(0, 1000), inbox.Remote().Slice(1000, 1000))); err != nil {
			t.Fatalf("Conn.Send and Conn.Write: %v", err)
		}
		if _, err := peer.WaitRecv(ctx); err != nil {
			t.Fatalf("Conn.WaitRecv: %v", err)
		}
		s := r.conn.Stats()
		if got, want := s.QP.Sends[verbs.OpSend], (verbs.Count{Operations: 1, Bytes: 10}); got != want {
			t.Errorf("Conn.Stats = %+v SENDs, want %+v", got, want)
		}
		// The keepalive also writes.
		if got := s.QP.Sends[verbs.OpWrite]; got.Operations < 1 || got.Bytes != 1000 {
			t.Errorf("Conn.Stats = %+v WRITEs, want at least 1 with 1000 bytes", got)
		}
		if o := s.Operations; o.Started < 2 || o.Failed != 0 || o.Pending != 0 {
			t.Errorf("Conn.Stats = %+v operations, want at least 2 started, and none failed or pending", o)
		}
		if got, want := peer.Stats().RecvCQ.Received, (verbs.Count{Operations: 1, Bytes: 10}); got != want {
			t.Errorf("Conn.Stats of the peer = %+v received, want %+v", got, want)
		}

		// A rejected request, a closed request, and a request over the limit.
		lost := uint64(0)
		d = dial()
		if err := request().Reject(nil); err != nil {
			t.Fatalf("Request.Reject: %v", err)
		}
		lost += expectRejected(t, (<-d).err)
		d = dial()
		request().Close()
		lost += expectRejected(t, (<-d).err)
		d = dial()
		held := request()
		over := dial()
		accepting, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = ln.Accept(accepting) // refuses it
		}()
		lost += expectRejected(t, (<-over).err)
		cancel()
		<-done
		held.Close()
		lost += expectRejected(t, (<-d).err)

		// A cancelled dial.
		ended, stop := context.WithCancel(ctx)
		stop()
		if _, err := dialer.Dial(ended, "tcp", ln.Addr().String()); !errors.Is(err, context.Canceled) {
			t.Errorf("Dialer.Dial with an ended context = %v, want context.Canceled", err)
		}

		got := cm.StatsOf(host)
		if open := got.Open - before.Open; open != 2 {
			t.Errorf("StatsOf = %d more open connections, want 2", open)
		}
		if _, err := r.conn.Disconnect(ctx); err != nil {
			t.Fatalf("Conn.Disconnect: %v", err)
		}
		if _, err := peer.Wait(ctx); err != nil {
			t.Fatalf("Conn.Wait: %v", err)
		}
		r.conn.Close()
		peer.Close()

		wantAccepts := cm.AcceptStats{Established: 1, Rejected: 3, Refused: 1}
		if got := ln.Stats(); got != wantAccepts {
			t.Errorf("Listener.Stats = %+v, want %+v", got, wantAccepts)
		}
		got = cm.StatsOf(host)
		want := before
		want.Dials.Established++
		want.Dials.Rejected += 4 - lost
		want.Dials.Unreachable += lost
		want.Dials.Cancelled++
		want.Accepts.Established++
		want.Accepts.Rejected += 3
		want.Accepts.Refused++
		want.Ends.Local++
		want.Ends.Peer++
		if got != want {
			t.Errorf("StatsOf = %+v, want %+v", got, want)
		}
	})
}

// expectRejected requires a rejection. It returns 1 if the driver reports another error: see isLostRejection.
func expectRejected(t *testing.T, err error) (lost uint64) {
	t.Helper()
	if isLostRejection(err) {
		return 1
	}
	if rejected := (*cm.RejectError)(nil); !errors.As(err, &rejected) {
		t.Fatalf("Dialer.Dial = %v, want a RejectError", err)
	}
	return 0
}

// TestStatsOfBroken counts a connection whose operation fails and which is then closed.
func TestStatsOfBroken(t *testing.T) {
	for name, machine := range fakeMachines {
		t.Run(name, func(t *testing.T) {
			host := cmtest.New(machine()).Host()
			ctx := within(t, time.Minute)
			ln := listenOn(t, cm.ListenConfig{Host: host}, "10.0.0.1:0")
			peer := make(chan *cm.Conn, 1)
			go func() {
				defer close(peer)
				if req, err := ln.Accept(ctx); err == nil {
					if conn, err := req.Accept(ctx, nil, nil); err == nil {
						peer <- conn
					}
				}
			}()
			defer func() {
				if conn := <-peer; conn != nil {
					conn.Close()
				}
			}()
			conn, err := (&cm.Dialer{Host: host}).Dial(ctx, "tcp", ln.Addr().String())
			if err != nil {
				t.Fatalf("Dialer.Dial: %v", err)
			}
			mem, err := conn.Alloc(4096, verbs.LocalWrite)
			if err != nil {
				t.Fatalf("Conn.Alloc: %v", err)
			}
			if err := conn.Write(ctx, mem.Slice(0, 8), verbs.RemoteMemory{Addr: 4096, Length: 8, RKey: 0xdead00}); err == nil {
				t.Errorf("Conn.Write with a wrong key = nil, want an error")
			}
			conn.Close()
			s := conn.Stats()
			if s.Operations.Failed != 1 || s.SendCQ.Completions[verbs.WCRemAccessErr] != 1 {
				t.Errorf("Conn.Stats = %+v, want 1 failed operation with a remote access error", s)
			}
			if got := cm.StatsOf(host); got.Broken < 1 || got.Ends.Closed+got.Ends.Peer+got.Ends.Local < 1 {
				t.Errorf("StatsOf = %+v, want a broken connection that has ended", got)
			}
		})
	}
}

// TestStatsOfFaults makes dials fail, and ends connections by Close and by the removal of a device.
func TestStatsOfFaults(t *testing.T) {
	k := cmtest.New(fakeMachines["rxe"]())
	host := k.Host()
	ln := listenOn(t, cm.ListenConfig{Host: host}, "10.0.0.1:7")
	defer ln.Close()
	dialer := &cm.Dialer{Host: host, LocalAddr: mustParse("10.0.0.2:0")}
	ctx := within(t, time.Minute)
	for _, name := range []string{"open", "CREATE_ID", "CONNECT"} {
		k.OnCommand(func(c cmtest.Command) error {
			if c.Device == "rdma_cm" && c.Name == name {
				return syscall.ENOMEM
			}
			return nil
		})
		if conn, err := dialer.Dial(ctx, "tcp", "10.0.0.1:7"); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("Dialer.Dial with a failure of %s = %v, %v, want ENOMEM", name, conn, err)
		}
	}
	k.OnCommand(nil)
	k.OnMessage(func(cmtest.Message) (cmtest.Fate, time.Duration) { return cmtest.Lost, 0 })
	if conn, err := dialer.Dial(ctx, "tcp", "10.0.0.1:7"); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("Dialer.Dial without a network = %v, %v, want ETIMEDOUT", conn, err)
	}
	k.OnMessage(nil)
	connect := func() (client, server *cm.Conn) {
		accepted := acceptOne(ctx, t, ln, nil)
		return ok(dialer.Dial(ctx, "tcp", "10.0.0.1:7"))(t), accepted()
	}
	client, server := connect()
	client.Close()
	ok(server.Wait(ctx))(t)
	server.Close()
	client, server = connect()
	if !k.Remove(server.Device().Name()) {
		t.Fatal("Kernel.Remove = false, want true")
	}
	if end, err := server.Wait(ctx); err != nil || end.Event != cm.EventDeviceRemoval {
		t.Errorf("Conn.Wait after a removal = %+v, %v, want the event %v", end, err, cm.EventDeviceRemoval)
	}
	server.Close()
	ok(client.Wait(ctx))(t)
	client.Close()
	want := cm.Stats{
		Dials:   cm.DialStats{Established: 2, Unreachable: 1, Failed: 3},
		Accepts: cm.AcceptStats{Established: 2},
		Ends:    cm.EndStats{Peer: 2, Removed: 1, Closed: 1},
	}
	if got := cm.StatsOf(host); got != want {
		t.Errorf("StatsOf = %+v, want %+v", got, want)
	}
}
