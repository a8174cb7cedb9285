// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"io"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestDisconnectBeforeConfirmation checks a peer that connects, sends a message and
// disconnects, and whose confirmation (RTU) never arrives. Accept returns the connection,
// which holds the message and then io.EOF.
func TestDisconnectBeforeConfirmation(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	k.OnMessage(func(m cmtest.Message) (cmtest.Fate, time.Duration) {
		if m.Type == cmtest.RTU {
			return cmtest.Lost, 0
		}
		return cmtest.Arrives, 0
	})
	ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:7")
	ctx := within(t, 10*time.Second)
	accepted := acceptOne(ctx, t, ln, func(req *cm.Request) (*cm.ConnParam, error) { return nil, postOne(req) })
	d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
	conn := ok(d.Dial(ctx, "tcp", "10.0.0.1:7"))(t)
	buf := ok(conn.Alloc(64, verbs.LocalWrite))(t)
	if err := conn.Send(ctx, buf.SGE()); err != nil {
		t.Errorf("conn.Send: %v", err)
	}
	closed(t, conn)
	peer := accepted()
	if wc, err := peer.WaitRecv(ctx); err != nil || wc.ByteLen != 64 {
		t.Errorf("WaitRecv() = %d bytes, %v, want 64, nil", wc.ByteLen, err)
	}
	if _, err := peer.WaitRecv(ctx); err != io.EOF {
		t.Errorf("second WaitRecv() = %v, want io.EOF", err)
	}
	if end, err := peer.Wait(ctx); err != nil || end != (cm.End{Event: cm.EventDisconnected}) {
		t.Errorf("Wait() = %+v, %v, want the peer's disconnect", end, err)
	}
	closed(t, peer)
	closed(t, ln)
	nothingLeft(t, k)
}
