// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"net"
	"strconv"

	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// plainServer takes connections without the connection manager.
type plainServer struct{ *plain }

// acceptTCP waits for the connection of control: the first one that brings a plan.
func acceptTCP(ctx context.Context, o *options, listening func(string, int)) (serverWay, error) {
	w, err := openPlain(o)
	if err != nil {
		return nil, err
	}
	client, err := acceptPlan(ctx, net.JoinHostPort(o.source, strconv.Itoa(o.port)), listening)
	if err != nil {
		w.close()
		return nil, err
	}
	w.tcpControl = startTCPControl(client.Conn, client.Hello.r, client.Hello.line)
	return plainServer{w}, nil
}

// begun is the beginning of a connection of control: its first line, and what reads the
// others.
type begun struct {
	line []byte
	r    *bufio.Reader
}

// acceptPlan waits for a connection whose first message is a plan. The port is open to
// everybody: other connections are closed.
func acceptPlan(ctx context.Context, addr string, listening func(string, int)) (tool.Guest[begun], error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return tool.Guest[begun]{}, err
	}
	listening(ln.Addr().String(), ln.Addr().(*net.TCPAddr).Port)
	w := tool.Welcome[begun]{Listener: ln, Patience: handTime, Read: readPlan}
	guests, err := w.Gather(ctx, 1)
	if err != nil {
		return tool.Guest[begun]{}, err
	}
	return guests[0], nil
}

// readPlan reads the first message of a client. Whether the plan can be carried out is
// not looked at: the client gets an answer.
func readPlan(conn net.Conn) (begun, error) {
	r := bufio.NewReaderSize(conn, maxMessage)
	line, err := readLine(r)
	if err != nil {
		return begun{}, err
	}
	m, err := decode(line)
	if err == nil && m.Plan == nil {
		err = errNoPlan
	}
	return begun{append([]byte(nil), line...), r}, err
}

func (s plainServer) memory() (*verbs.Device, *verbs.PD) { return s.dev, s.pd }

func (s plainServer) accept(ctx context.Context, e *end, _ uint64) error {
	return s.exchange(ctx, e, false)
}
