// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"purerdma/cm"
)

// runServer waits for all connections, sends, receives, and disconnects.
func (t *test) runServer(ctx context.Context) error {
	t.u.Printf("cmatose: starting server\n")
	listener, err := t.ch.NewID(cm.IDConfig{PortSpace: t.opt.names.Space})
	if err != nil {
		t.u.Perror("cmatose: listen request failed", err)
		return err
	}
	defer listener.Close()
	if err := t.listen(ctx, listener); err != nil {
		return err
	}
	t.fetch(ctx)
	if err := t.connected(ctx); err != nil {
		return err
	}
	if err := t.exchange(ctx); err != nil {
		return err
	}
	if t.opt.migrate {
		if err := t.migrate(ctx, listener); err != nil {
			return err
		}
	}
	t.u.Printf("cmatose: disconnecting\n")
	t.forEach(func(n *node) error {
		n.id.Disconnect() // a client may have disconnected before
		return nil
	})
	err = t.disconnected(ctx)
	t.u.Printf("disconnected\n")
	return err
}

func (t *test) listen(ctx context.Context, id *cm.ID) error {
	local, _, err := t.opt.names.Resolve(ctx)
	if err != nil {
		t.lookupFailed("getrdmaaddr", err)
		return err
	}
	if err := id.Bind(local); err != nil {
		t.u.Perror("cmatose: bind address failed", err)
		return err
	}
	if err := id.Listen(0); err != nil {
		t.u.Perror("cmatose: failure trying to listen", err)
		return err
	}
	return nil
}

// exchange sends all messages and receives as many.
func (t *test) exchange(ctx context.Context) error {
	if t.opt.count == 0 {
		return nil
	}
	t.u.Printf("initiating data transfers\n")
	if err := t.forEach((*node).postSends); err != nil {
		return err
	}
	t.u.Printf("completing sends\n")
	if err := t.forEach(func(n *node) error { return n.awaitSends(ctx) }); err != nil {
		return err
	}
	t.u.Printf("receiving data transfers\n")
	if err := t.forEach(func(n *node) error { return n.awaitRecvs(ctx) }); err != nil {
		return err
	}
	t.u.Printf("data transfers complete\n")
	return nil
}
