// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// ready creates the objects of either side, posts a receive, and establishes the connection.
func ready(ctx context.Context, p cm.PendingConn, param *cm.ConnParam) (*cm.Conn, error) {
	if err := postOne(p); err != nil {
		return nil, err
	}
	return p.Establish(ctx, nil, param)
}

// postOne posts a receive of 4096 bytes.
func postOne(p cm.PendingConn) error {
	buf, err := p.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	return p.PostRecv(1, buf.SGE())
}

// TestPendingConn connects both sides with one function, and checks the names of the depths.
func TestPendingConn(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:7")
	ctx := within(t, 10*time.Second)
	accepted := make(chan *cm.Conn, 1)
	go func() {
		defer close(accepted)
		req, err := ln.Accept(ctx)
		if err != nil {
			return
		}
		if p := req.PeerParam(); p.IncomingReads != 4 || p.OutgoingReads != 3 {
			t.Errorf("PeerParam() of the request = %+v, want 4 incoming and 3 outgoing READs", p)
		}
		conn, err := ready(ctx, req, nil)
		if err != nil {
			t.Errorf("ready: %v", err)
			return
		}
		accepted <- conn
	}()
	d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
	r := ok(d.Resolve(ctx, "tcp", "10.0.0.1:7"))(t)
	conn := ok(ready(ctx, r, &cm.ConnParam{ResponderResources: 3, InitiatorDepth: 4}))(t)
	defer conn.Close()
	if p := conn.PeerParam(); p.IncomingReads != 3 || p.OutgoingReads != 4 {
		t.Errorf("PeerParam() = %+v, want 3 incoming and 4 outgoing READs", p)
	}
	if server := <-accepted; server != nil {
		server.Close()
	}
}
