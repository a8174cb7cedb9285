// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestExampleOneSided runs the example of READ and WRITE.
func TestExampleOneSided(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln, d := ends(t)
	offered := make(chan error, 1)
	go func() {
		req, err := ln.Accept(within(t, 10*time.Second))
		if err == nil {
			err = offer(within(t, 10*time.Second), req)
		}
		offered <- err
	}()
	conn, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	if got, err := reach(within(t, 10*time.Second), conn); err != nil || got != "read me" {
		t.Errorf("reach() = %q, %v, want \"read me\"", got, err)
	}
	if _, err := conn.Disconnect(within(t, 10*time.Second)); err != nil {
		t.Errorf("conn.Disconnect: %v", err)
	}
	if err := <-offered; err != nil {
		t.Errorf("offer: %v", err)
	}
}

// TestExampleEventServer runs the example of a server with the calls of librdmacm. Three
// clients connect one after another. A fourth one is connected when the server ends.
func TestExampleEventServer(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ch := channel(t)
	listener, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	if err := listener.Bind(cm.AddrFrom(netip.AddrPortFrom(hosts[0].IPv4, 0))); err != nil {
		t.Fatalf("listener.Bind: %v", err)
	}
	if err := listener.Listen(0); err != nil {
		t.Fatalf("listener.Listen: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serveEvents(ctx, ch) }()
	client := func() *cm.Conn {
		conn, err := dialerOf(hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", listener.LocalAddr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		say(t, conn, "by events")
		return conn
	}
	for range 3 {
		conn := client()
		if _, err := conn.Disconnect(within(t, 10*time.Second)); err != nil {
			t.Errorf("conn.Disconnect: %v", err)
		}
		conn.Close()
	}
	defer client().Close()
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("serveEvents() = %v, want Canceled", err)
	}
}

// TestExampleAnswerToAGroup runs the example of a member that answers. Only the sender gets
// the answer.
func TestExampleAnswerToAGroup(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ch := channel(t)
	join := func(h vmtest.Host) (*cm.ID, cm.UDParam) {
		id := member(t, ch, h)
		if err := id.CreateQP(nil, verbs.QPConfig{}); err != nil {
			t.Fatalf("id.CreateQP: %v", err)
		}
		if _, err := id.JoinMulticast(group, cm.FullMember); err != nil {
			t.Fatalf("id.JoinMulticast: %v", err)
		}
		ev := expect(t, ch, cm.EventMulticastJoin)
		ev.Ack()
		return id, ev.UD
	}
	answerer, its := join(hosts[0])
	asker, to := join(hosts[1])
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- answerGroup(ctx, answerer, its) }()
	buf := alloc(t, asker.QP().PD(), 4096)
	out := alloc(t, asker.QP().PD(), 4096)
	for end := time.Now().Add(10 * time.Second); ; {
		// The first message may come before the answering member has posted its receive. The
		// sending member also receives its own messages.
		receive(t, asker.QP(), buf)
		sendTo(t, asker.QP(), to, out, "who is there")
		wc := completion(t, asker.QP().RecvCQ())
		got := string(buf.Bytes()[verbs.GRHLen:wc.ByteLen])
		if got == "got who is there" {
			if wc.SrcQP != answerer.QP().Num() {
				t.Errorf("SrcQP of the answer = %d, want %d", wc.SrcQP, answerer.QP().Num())
			}
			break
		}
		if got != "who is there" || time.Now().After(end) {
			t.Fatalf("received %q, want %q", got, "got who is there")
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("answerGroup() = %v, want Canceled or net.ErrClosed", err)
	}
}
