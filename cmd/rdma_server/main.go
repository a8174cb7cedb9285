// SPDX-License-Identifier: Apache-2.0

// Rdma_server accepts one connection, waits for a message of 16 bytes and sends one. It has the
// flags, output and protocol of rdma-core's rdma_server, so that the client may be the C
// program.
package main

import (
	"context"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

func main() { tool.Main(tool.HelloProgram("rdma_server", "0.0.0.0", run)) }

func run(ctx context.Context, u *tool.UI, names tool.Names) error {
	addr, err := tool.HelloAddress(ctx, u, names)
	if err != nil {
		return err
	}
	ln, err := (&cm.ListenConfig{QP: tool.HelloQP()}).ListenAddr(cm.PortSpaceTCP, addr)
	if err != nil {
		u.Perror("rdma_create_ep", err)
		return err
	}
	defer ln.Close()
	req, err := tool.Accept(ctx, ln, func(err error) { u.Perror("rdma_get_request", err) })
	if err != nil {
		u.Perror("rdma_get_request", err)
		return err
	}
	defer req.Close()
	h, err := tool.NewHello(u, req)
	if err != nil {
		return err
	}
	defer h.Close()
	conn, err := req.Accept(ctx, nil, tool.NullConnParam())
	if err != nil {
		u.Perror("rdma_accept", err)
		return err
	}
	h.Connected(conn)
	if err := h.Receive(ctx); err != nil {
		return err
	}
	return h.Send(ctx)
}
