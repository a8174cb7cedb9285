// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// idleNet holds two hosts on a fabric that counts its messages, and can lose them all.
type idleNet struct {
	k       *cmtest.Kernel
	fabric  *connectx.Fabric
	packets atomic.Int64
	dead    atomic.Bool
	qp      verbs.QPConfig // of the client
}

func newIdleNet() *idleNet {
	devices := inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1")
	n := &idleNet{k: cmtest.New(devices), fabric: devices.Fabric}
	devices.Fabric.OnPacket(func(*connectx.Packet) (connectx.Fate, time.Duration) {
		n.packets.Add(1)
		if n.dead.Load() {
			return connectx.Lost, 0
		}
		return connectx.Arrives, 0
	})
	return n
}

// connect connects a client to a server. Each side has its own period.
func (n *idleNet) connect(t *testing.T, server, client time.Duration) (*cm.Conn, *cm.Conn) {
	t.Helper()
	ln := listenOn(t, cm.ListenConfig{Host: n.k.Host(), KeepAlive: server}, "10.0.0.1:0")
	accepted := acceptOne(t.Context(), t, ln, nil)
	d := &cm.Dialer{Host: n.k.Host(), LocalAddr: mustParse("10.0.0.2:0"), KeepAlive: client, QP: n.qp}
	conn, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	peer := accepted()
	t.Cleanup(func() { peer.Close() })
	return peer, conn
}

// wantProbes waits for messages on the fabric.
func (n *idleNet) wantProbes(t *testing.T) {
	t.Helper()
	before := n.packets.Load()
	for end := time.Now().Add(10 * time.Second); n.packets.Load() < before+3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("fewer than 3 messages on the idle connection within 10 seconds")
		}
	}
}

// TestKeepAliveOfAnIdleConnection checks that either side's period makes it probe the peer of
// an idle connection repeatedly, and that the connection stays usable.
func TestKeepAliveOfAnIdleConnection(t *testing.T) {
	for name, periods := range map[string][2]time.Duration{"the client": {-1, 10 * time.Millisecond}, "the server": {10 * time.Millisecond, -1}} {
		t.Run(name, func(t *testing.T) {
			n := newIdleNet()
			server, client := n.connect(t, periods[0], periods[1])
			n.wantProbes(t)
			for _, conn := range []*cm.Conn{server, client} {
				if err := conn.Probe(within(t, 10*time.Second)); err != nil {
					t.Errorf("Probe() = %v, want nil", err)
				}
			}
			client.Close()
			if _, err := server.Wait(within(t, 10*time.Second)); err != nil {
				t.Errorf("server.Wait: %v", err)
			}
		})
	}
}

// TestSetKeepAlive starts, ends and restarts the probes of a connection that had none.
func TestSetKeepAlive(t *testing.T) {
	n := newIdleNet()
	_, client := n.connect(t, -1, -1)
	set := func(period time.Duration) {
		t.Helper()
		if err := client.SetKeepAlive(period); err != nil {
			t.Errorf("SetKeepAlive(%v) = %v", period, err)
		}
	}
	set(-1)
	set(10 * time.Millisecond)
	n.wantProbes(t)
	set(time.Nanosecond)
	n.wantProbes(t)
	set(-1) // most likely during a probe
	for end, before := time.Now().Add(10*time.Second), int64(-1); n.packets.Load() != before; time.Sleep(100 * time.Millisecond) {
		if before = n.packets.Load(); time.Now().After(end) {
			t.Fatal("the probes have not ended within 10 seconds")
		}
	}
	set(0)
	n.wantProbes(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 50 {
				set(time.Duration(i+j%5-2) * time.Millisecond)
			}
		})
	}
	all.Go(func() { client.Close() })
	all.Wait()
	set(time.Millisecond)
}

// TestSetKeepAliveOfSharedCQ checks the error of a connection whose CQ has other users.
func TestSetKeepAliveOfSharedCQ(t *testing.T) {
	n := newIdleNet()
	ln := listenOn(t, cm.ListenConfig{Host: n.k.Host(), KeepAlive: -1}, "10.0.0.1:0")
	accepted := acceptOne(t.Context(), t, ln, nil)
	d := &cm.Dialer{Host: n.k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	pd, err := r.Device().AllocPD()
	if err != nil {
		t.Fatalf("AllocPD: %v", err)
	}
	defer pd.Close()
	cq, err := r.Device().CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatalf("CreateCQ: %v", err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	defer qp.Close()
	client, err := r.Connect(within(t, 10*time.Second), qp, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer client.Close()
	defer accepted().Close()
	if err := client.SetKeepAlive(time.Second); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("SetKeepAlive() = %v, want %v", err, errors.ErrUnsupported)
	}
	if err := client.SetKeepAlive(-1); err != nil {
		t.Errorf("SetKeepAlive(-1) = %v, want nil", err)
	}
}

// TestKeepAliveWithOneCQ checks that a connection whose QP has one CQ is probed.
func TestKeepAliveWithOneCQ(t *testing.T) {
	n := newIdleNet()
	n.qp.OneCQ = true
	n.connect(t, -1, 10*time.Millisecond)
	n.wantProbes(t)
}

// TestKeepAliveFindsADeadPeer checks that the end of a peer without notice ends an idle
// connection. The operations of the connection then return the cause, which is the retries of
// the QP or the deadline of the probe.
func TestKeepAliveFindsADeadPeer(t *testing.T) {
	n := newIdleNet()
	_, client := n.connect(t, -1, 50*time.Millisecond)
	n.wantProbes(t)
	buf, err := client.PD().Alloc(64, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	defer buf.Close()
	defer client.Close()
	n.fabric.SetPace(1000) // lets the QP's retries take seconds
	n.dead.Store(true)
	byKeepAlive := func(err error) bool {
		var broken *cm.BrokenError
		return errors.As(err, &broken) && broken.Op == "keepalive"
	}
	select {
	case <-client.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("Done is not closed after 20 seconds")
	}
	if err := client.Err(); !byKeepAlive(err) {
		t.Errorf("Err() after the peer has vanished = %v, want an error of the keepalive", err)
	} else if oe, ok := err.(*cm.OpError); !ok || !oe.Timeout() || oe.Temporary() || !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("Err() after the peer has vanished = %v, want a lasting timeout, ETIMEDOUT", err)
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Err() after the peer has vanished = %v, want no deadline of the caller", err)
	}
	if err := client.Send(within(t, 10*time.Second), buf.Slice(0, 1)); !byKeepAlive(err) {
		t.Errorf("Send after the peer has vanished = %v, want an error of the keepalive", err)
	}
}

// TestKeepAliveOfASlowReceiver sends a message for which the peer posts a receive much later than a probe may take. The
// message waits, and so does the probe behind it. The peer is alive, so the message must arrive.
func TestKeepAliveOfASlowReceiver(t *testing.T) {
	n := newIdleNet()
	server, client := n.connect(t, -1, -1)
	buf, err := client.Alloc(64, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	theirs, err := server.Alloc(64, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	sent := n.startSend(t, client, buf.SGE())
	probed := startProbe(client, time.Second)
	select {
	case err := <-sent:
		t.Fatalf("Send without a receive = %v, want none yet", err)
	case <-probed:
		t.Fatalf("the probe has ended before the message: %v", client.Err())
	case <-time.After(1500 * time.Millisecond): // longer than the time to answer
	}
	if err := server.PostRecv(1, theirs.SGE()); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	if err := <-sent; err != nil {
		t.Errorf("Send after the receive was posted = %v", err)
	}
	<-probed
	if err := client.Err(); err != nil {
		t.Errorf("Err() after the probe = %v, want nil", err)
	}
}

// startSend sends a message and waits until a packet of it is on the fabric.
func (n *idleNet) startSend(t *testing.T, conn *cm.Conn, sge verbs.SGE) (sent chan error) {
	t.Helper()
	before := n.packets.Load()
	sent = make(chan error, 1)
	go func() { sent <- conn.Send(within(t, 20*time.Second), sge) }()
	for end := time.Now().Add(10 * time.Second); n.packets.Load() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no packet of the message within 10 seconds")
		}
	}
	return sent
}

// startProbe probes the peer as the keepalive does. The answer is late after a time.
func startProbe(conn *cm.Conn, late time.Duration) (probed chan struct{}) {
	probed = make(chan struct{})
	go func() {
		defer close(probed)
		cm.ProbeWithin(conn, late)
	}()
	return probed
}

// TestKeepAliveLeavesADeadPeerToRetries checks that the QP's retries end a connection with a message in flight, which the
// keepalive does not.
func TestKeepAliveLeavesADeadPeerToRetries(t *testing.T) {
	n := newIdleNet()
	_, client := n.connect(t, -1, -1)
	buf, err := client.Alloc(64, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	n.fabric.SetPace(1000)
	n.dead.Store(true)
	sent := n.startSend(t, client, buf.SGE())
	probed := startProbe(client, 0)
	err = <-sent
	<-probed
	if failed, ok := errors.AsType[*verbs.WCError](err); !ok || failed.Status != verbs.WCRetryExcErr {
		t.Errorf("Send to a dead peer = %v, want %v", err, verbs.WCRetryExcErr)
	}
}

// TestNoKeepAlive checks that a negative period means no probes, and that the default is
// longer than this test.
func TestNoKeepAlive(t *testing.T) {
	const wait = 100 * time.Millisecond
	for _, period := range []time.Duration{-1, 0} {
		n := newIdleNet()
		n.connect(t, period, period)
		before := n.packets.Load()
		time.Sleep(wait)
		if got := n.packets.Load() - before; got > 0 {
			t.Errorf("KeepAlive %v: %d probes in %v, want none", period, got, wait)
		}
	}
}
