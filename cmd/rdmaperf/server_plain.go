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

// plainServer accepts connections without the connection manager.
type plainServer struct{ *plain }

// acceptTCP waits for the control connection, which is the first connection with a plan.
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

// controlStart is a new control connection: its first line, and the reader of the next ones.
type controlStart struct {
	line []byte
	r    *bufio.Reader
}

// acceptPlan waits for a connection whose first message is a plan. It closes other connections,
// because any host can connect to the port.
func acceptPlan(ctx context.Context, addr string, listening func(string, int)) (tool.Guest[controlStart], error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return tool.Guest[controlStart]{}, err
	}
	listening(ln.Addr().String(), ln.Addr().(*net.TCPAddr).Port)
	w := tool.Welcome[controlStart]{Listener: ln, Patience: handTime, Read: readPlan}
	guests, err := w.Gather(ctx, 1)
	if err != nil {
		return tool.Guest[controlStart]{}, err
	}
	return guests[0], nil
}

// readPlan reads the first message of a client. It does not validate the plan, because the
// client gets an answer.
func readPlan(conn net.Conn) (controlStart, error) {
	r := bufio.NewReaderSize(conn, maxMessage)
	line, err := readLine(r)
	if err != nil {
		return controlStart{}, err
	}
	m, err := decode(line)
	if err == nil && m.Plan == nil {
		err = errNoPlan
	}
	return controlStart{append([]byte(nil), line...), r}, err
}

func (s plainServer) memory() (*verbs.Device, *verbs.PD) { return s.dev, s.pd }

func (s plainServer) accept(ctx context.Context, e *end, _ uint64) error {
	return s.exchange(ctx, e, false)
}
