// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
)

// runClient resolves the addresses and runs the test.
func (t *test) runClient(ctx context.Context) error {
	t.u.Printf("cmatose: starting client\n")
	local, remote, err := t.opt.names.Resolve(ctx)
	if err != nil {
		t.lookupFailed("getaddrinfo", err)
		return err
	}
	return t.ask(ctx, local, remote)
}

// ask connects, receives, answers, and waits for the server's disconnect.
func (t *test) ask(ctx context.Context, local, remote cm.Addr) error {
	t.fetch(ctx)
	t.u.Printf("cmatose: connecting\n")
	for _, n := range t.nodes {
		if err := n.id.ResolveAddr(local, remote, resolveTimeout); err != nil {
			t.u.Perror("cmatose: failure getting addr", err)
			return err
		}
	}
	err := t.connected(ctx)
	if err == nil {
		err = t.reply(ctx)
	}
	if err == nil && t.opt.migrate {
		err = t.migrate(ctx, nil)
	}
	if err != nil {
		return err
	}
	return t.disconnected(ctx)
}

// reply sends as many messages to the server as it has received.
func (t *test) reply(ctx context.Context) error {
	if t.opt.count == 0 {
		return nil
	}
	t.u.Printf("receiving data transfers\n")
	if err := t.forEach(func(n *node) error { return n.awaitRecvs(ctx) }); err != nil {
		return err
	}
	t.u.Printf("sending replies\n")
	if err := t.forEach((*node).postSends); err != nil {
		return err
	}
	t.u.Printf("data transfers complete\n")
	return nil
}

// lookupFailed reports a failed address look-up under the name of the C program's call.
func (t *test) lookupFailed(call string, err error) {
	t.u.Printf("cmatose: %s error: %s\n", call, addrinfo.Strerror(err))
	t.u.Fail(err)
}
