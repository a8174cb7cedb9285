// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"strconv"

	"purerdma/verbs"
)

// plainServer takes connections without the connection manager.
type plainServer struct{ *plain }

// acceptTCP waits for the connection of control: the first one.
func acceptTCP(ctx context.Context, o *options, listening func(string, int)) (serverWay, error) {
	w, err := openPlain(o)
	if err != nil {
		return nil, err
	}
	conn, err := acceptOne(ctx, net.JoinHostPort(o.source, strconv.Itoa(o.port)), listening)
	if err != nil {
		w.close()
		return nil, err
	}
	w.tcpControl = newTCPControl(conn)
	return plainServer{w}, nil
}

func acceptOne(ctx context.Context, addr string, listening func(string, int)) (net.Conn, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	listening(ln.Addr().String(), ln.Addr().(*net.TCPAddr).Port)
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	conn, err := ln.Accept()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return conn, err
}

func (s plainServer) memory() (*verbs.Device, *verbs.PD) { return s.dev, s.pd }

func (s plainServer) accept(ctx context.Context, e *end, _ uint64) error {
	return s.exchange(ctx, e, false)
}
