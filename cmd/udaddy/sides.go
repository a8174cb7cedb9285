// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// runClient resolves the addresses and runs the test.
func (t *test) runClient(ctx context.Context) error {
	t.u.Printf("udaddy: starting client\n")
	local, remote, err := t.opt.names.Resolve(ctx)
	if err != nil {
		t.lookupFailed("getaddrinfo", err)
		return err
	}
	return t.ask(ctx, local, remote)
}

// ask resolves the destinations, sends, and waits for the answers.
func (t *test) ask(ctx context.Context, local, remote cm.Addr) error {
	t.fetch(ctx)
	t.u.Printf("udaddy: connecting\n")
	for _, n := range t.nodes {
		if err := n.ID.ResolveAddr(local, remote, resolveTimeout); err != nil {
			t.u.Perror("udaddy: failure getting addr", err)
			return err
		}
	}
	if err := t.found.Wait(ctx); err != nil || t.opt.count == 0 {
		return err
	}
	t.u.Printf("initiating data transfers\n")
	if err := t.forEach(func(n *tool.Datagrams) error { return n.PostSends(0) }); err != nil {
		return err
	}
	t.u.Printf("receiving data transfers\n")
	if err := t.await(ctx); err != nil {
		return err
	}
	t.u.Printf("data transfers complete\n")
	return nil
}

// runServer answers enough look-ups, receives, and answers.
func (t *test) runServer(ctx context.Context) error {
	t.u.Printf("udaddy: starting server\n")
	listener, err := t.ch.NewID(cm.IDConfig{PortSpace: t.opt.names.Space})
	if err != nil {
		t.u.Perror("udaddy: listen request failed", err)
		return err
	}
	defer listener.Close()
	local, _, err := t.opt.names.Resolve(ctx)
	if err != nil {
		t.lookupFailed("getrdmaaddr", err)
		return err
	}
	if err := listener.Bind(local); err != nil {
		t.u.Perror("udaddy: bind address failed", err)
		return err
	}
	if err := listener.Listen(0); err != nil {
		t.u.Perror("udaddy: failure trying to listen", err)
		return err
	}
	t.fetch(ctx)
	if err := t.found.Wait(ctx); err != nil || t.opt.count == 0 {
		return err
	}
	t.u.Printf("receiving data transfers\n")
	if err := t.await(ctx); err != nil {
		return err
	}
	t.u.Printf("sending replies\n")
	if err := t.forEach(func(n *tool.Datagrams) error { return n.PostSends(verbs.SendSignaled) }); err != nil {
		return err
	}
	if err := t.await(ctx); err != nil {
		return err
	}
	t.u.Printf("data transfers complete\n")
	return nil
}

// lookupFailed reports a failed address look-up under the name of the C program's call.
func (t *test) lookupFailed(call string, err error) {
	t.u.Printf("udaddy: %s error: %s\n", call, addrinfo.Strerror(err))
	t.u.Fail(err)
}
