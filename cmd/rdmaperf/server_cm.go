// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"strconv"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// cmServer accepts connections through the connection manager.
type cmServer struct {
	cmControl
	ln *cm.Listener
}

// acceptCM waits for the control connection and rejects all other connections.
func acceptCM(ctx context.Context, o *options, listening func(string, int)) (serverWay, error) {
	network := "tcp"
	if o.source == "" {
		network = "tcp4" // iWARP's IPv6 wildcard does not accept IPv4
	}
	ln, err := cm.Listen(ctx, network, net.JoinHostPort(o.source, strconv.Itoa(o.port)))
	if err != nil {
		return nil, err
	}
	listening(ln.Addr().String(), int(ln.Addr().Port()))
	s := &cmServer{ln: ln}
	if err := s.greet(ctx); err != nil {
		ln.Close()
		return nil, err
	}
	return s, nil
}

func (s *cmServer) greet(ctx context.Context) error {
	for {
		req, err := tool.Accept(ctx, s.ln, nil)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(req.PrivateData(), []byte(magic+"\x00")) {
			req.Reject(nil)
			continue
		}
		if err := s.prepare(req); err != nil {
			req.Close()
			return err
		}
		if s.conn, err = req.Accept(ctx, nil, nil); err == nil {
			return nil
		}
		// The client has left, or was no client. Another one may connect.
		s.cmControl.close()
		s.cmControl = cmControl{}
		if ctx.Err() != nil {
			return err
		}
	}
}

func (s *cmServer) close() {
	s.cmControl.close()
	s.ln.Close()
}

func (s *cmServer) memory() (*verbs.Device, *verbs.PD) { return s.conn.Device(), s.conn.PD() }

// agree does nothing, because the connection manager chooses the path.
func (*cmServer) agree(*plan) error { return nil }

// accept accepts the client's next connection. The client connects one QP after the other.
func (s *cmServer) accept(ctx context.Context, e *end, token uint64) error {
	want := binary.BigEndian.AppendUint64([]byte(magic), token)
	for {
		req, err := tool.Accept(ctx, s.ln, nil)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(req.PrivateData(), want) {
			return take(ctx, e, req)
		}
		req.Reject(nil) // not from the client
	}
}

func take(ctx context.Context, e *end, req *cm.Request) error {
	defer req.Close()
	l, err := e.newLane(req)
	if err != nil {
		return err
	}
	l.conn, err = req.Accept(ctx, l.qp, nil)
	return err
}
