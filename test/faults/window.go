// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// connection is both sides of a connection between the two devices.
type connection struct{ server, client *cm.Conn }

func connect(ctx context.Context) (c connection, err error) {
	hosts, err := vmtest.Ends()
	if err != nil {
		return c, err
	}
	ln, err := cm.Listen(ctx, "tcp", netip.AddrPortFrom(hosts[0].IPv4, 0).String())
	if err != nil {
		return c, err
	}
	accepted := make(chan error, 1)
	go func() {
		req, err := ln.Accept(ctx)
		if err == nil {
			c.server, err = req.Accept(ctx, nil, nil)
		}
		accepted <- err
	}()
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))}
	c.client, err = d.Dial(ctx, "tcp", ln.Addr().String())
	return c, errors.Join(err, <-accepted)
}

// invalidate makes a client invalidate an unbound window of type 2 of the server. The window
// was never bound, or with before set, the client has already invalidated it.
func invalidate(before bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := connect(ctx)
	if err != nil {
		return err
	}
	mr, err := c.server.PD().Alloc(4096, verbs.LocalWrite|verbs.RemoteWrite|verbs.MWBind)
	if err != nil {
		return err
	}
	w, err := c.server.PD().AllocMW(verbs.MWType2)
	if err != nil {
		return err
	}
	bind := w.Bind(mr, 0, 4096, verbs.RemoteWrite)
	key := bind.Bind.MW // a client can guess it, because 24 bits count from 0x10001 and 8 are random
	if before {
		key = w.RKey()
		if err := post(ctx, c.server.QP(), bind); err != nil {
			return fmt.Errorf("bind: %w", err)
		}
		if err := sendInv(ctx, c, key); err != nil {
			return fmt.Errorf("first SEND_WITH_INV: %w", err)
		}
	}
	fmt.Println("invalidating a window that is not bound")
	if err := sendInv(ctx, c, key); err != nil {
		fmt.Println("SEND_WITH_INV:", err)
	}
	return nil
}

// sendInv makes the client send an empty message that invalidates a key of the server.
func sendInv(ctx context.Context, c connection, key uint32) error {
	if err := c.server.PostRecv(0, verbs.SGE{}); err != nil {
		return err
	}
	return post(ctx, c.client.QP(), verbs.SendWR{Opcode: verbs.OpSendInv, InvalidateRKey: key})
}

// post posts a request and waits for its completion.
func post(ctx context.Context, qp *verbs.QP, wr verbs.SendWR) error {
	wr.Flags |= verbs.SendSignaled
	if _, err := qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	var wcs [1]verbs.WC
	if _, err := qp.SendCQ().Wait(ctx, wcs[:]); err != nil {
		return err
	}
	return wcs[0].Err()
}
