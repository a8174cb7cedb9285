// SPDX-License-Identifier: Apache-2.0

// Rdma_client connects to rdma_server, sends a message of 16 bytes and waits for one. It has
// the flags, output and protocol of rdma-core's rdma_client, so that the server may be the C
// program.
package main

import (
	"context"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

// resolveTimeout is the C library's time limit for the address, and then for the route.
const resolveTimeout = 2 * time.Second

func main() { tool.Main(tool.HelloProgram("rdma_client", "127.0.0.1", run)) }

func run(ctx context.Context, u *tool.UI, names tool.Names) error {
	addr, err := tool.HelloAddress(ctx, u, names)
	if err != nil {
		return err
	}
	d := cm.Dialer{ResolveTimeout: resolveTimeout, QP: tool.HelloQP()}
	r, err := d.Resolve(ctx, "tcp", addr.String())
	if err != nil {
		u.Perror("rdma_create_ep", err)
		return err
	}
	defer r.Close()
	h, err := tool.NewHello(u, r)
	if err != nil {
		return err
	}
	defer h.Close()
	conn, err := r.Connect(ctx, nil, tool.NullConnParam())
	if err != nil {
		u.Perror("rdma_connect", err)
		return err
	}
	h.Connected(conn)
	if err := h.Send(ctx); err != nil {
		return err
	}
	return h.Receive(ctx)
}
