// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync/atomic"

	"purerdma/cmd/internal/addrinfo"
	"purerdma/cmd/internal/tool"
	"purerdma/oob"
	"purerdma/verbs"
)

// meet connects the QPs to the QPs of the peer.
func (n *node) meet(ctx context.Context) (err error) {
	client := n.opt.server != ""
	if client {
		err = n.dial(ctx)
	} else {
		err = n.accept(ctx)
	}
	if err != nil {
		return err
	}
	n.remote = n.remote[:len(n.qps)]
	for _, a := range n.remote {
		n.u.Printf("  remote address: %v\n", a)
	}
	if client {
		err = n.connect(n.remote)
	}
	if err == nil {
		n.makeSend()
	}
	return err
}

// addresses returns the addresses to send. ibv_srq_pingpong sends an address for each possible
// QP, which is zero for a missing QP.
func (n *node) addresses() []oob.Address {
	if !n.SRQ {
		return n.own
	}
	all := make([]oob.Address, maxQPs)
	copy(all, n.own)
	return all
}

func (n *node) dial(ctx context.Context) error {
	conn, err := n.dialTCP(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := patient(ctx, n.opt.patience, new(atomic.Int64))
	defer cancel()
	n.remote, err = oob.Active(ctx, conn, n.addresses(), nil)
	return n.exchanged(err, "client read/write", "Couldn't read/write remote address")
}

func (n *node) dialTCP(ctx context.Context) (net.Conn, error) {
	host, port := n.opt.server, n.opt.port
	if _, err := tool.LookupHost(ctx, host); err != nil && ctx.Err() == nil {
		if _, ok := errors.AsType[addrinfo.EAI](err); ok {
			return nil, n.fail(err, "%s for %s:%d", addrinfo.Strerror(err), host, port)
		}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, n.fail(err, "Couldn't connect to %s:%d", host, port)
	}
	return conn, nil
}

// accept connects the server's QPs before the client has received their addresses. The client
// is the first connection that sends addresses. Other connections are closed.
func (n *node) accept(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", ":"+strconv.Itoa(n.opt.port))
	if err != nil {
		return n.fail(err, "Couldn't listen to port %d", n.opt.port)
	}
	w := tool.Welcome[[]byte]{Listener: ln, Patience: n.opt.patience, Read: n.readAddresses, Refused: n.refused}
	guests, err := w.Gather(ctx, 1)
	if err != nil {
		return n.fail(err, "accept() failed")
	}
	conn := &begun{Conn: guests[0].Conn, read: guests[0].Hello}
	defer conn.Close()
	ctx, cancel := patient(ctx, n.opt.patience, new(atomic.Int64))
	defer cancel()
	n.remote, err = oob.Passive(ctx, conn, n.addresses(), func(remote []oob.Address) error {
		if err := n.connect(remote); err != nil {
			n.u.Errorf("Couldn't connect to remote QP\n")
			return err
		}
		return nil
	})
	return n.exchanged(err, "server read", "Couldn't send/recv local address")
}

// readAddresses reads the addresses in a client's first message.
func (n *node) readAddresses(conn net.Conn) ([]byte, error) {
	b := make([]byte, len(n.addresses())*oob.AddressLen)
	for i := 0; i < len(b); i += oob.AddressLen {
		msg := b[i:][:oob.AddressLen]
		got, err := io.ReadFull(conn, msg)
		if err == nil {
			_, err = oob.ParseAddress(msg)
		}
		if err != nil {
			return nil, &oob.ExchangeError{Peer: conn.RemoteAddr(), Stage: oob.StageReceive, Index: i / oob.AddressLen, Bytes: got, Err: err}
		}
	}
	return b, nil
}

// refused prints the reason for closing a connection, as the C program does before it ends.
func (n *node) refused(_ net.Conn, err error) {
	n.exchanged(err, "server read", "Couldn't send/recv local address")
}

// begun is a connection from which some bytes have been read.
type begun struct {
	net.Conn
	read []byte
}

func (c *begun) Read(b []byte) (int, error) {
	if len(c.read) > 0 {
		n := copy(b, c.read)
		c.read = c.read[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// exchanged prints the failure of an exchange of addresses, unless connecting has failed.
func (n *node) exchanged(err error, what, otherwise string) error {
	x, ok := errors.AsType[*oob.ExchangeError](err)
	switch {
	case !ok:
	case x.Stage == oob.StageReceive && n.opt.server == "":
		n.u.Perror(what, err)
		n.u.Errorf("%d/%d: Couldn't read remote address\n", x.Bytes, oob.AddressLen)
	case x.Stage == oob.StageSend && n.opt.server != "":
		n.fail(err, "Couldn't send local address")
	default:
		n.fail(err, "%s", otherwise)
	}
	return err
}

// connect moves the QPs to RTS. It prints a failure.
func (n *node) connect(remote []oob.Address) error {
	for i, qp := range n.qps {
		if err := n.path.ToRTR(qp, remote[i]); err != nil {
			return n.fail(err, "Failed to modify %s to RTR", n.qpName(i))
		}
		if err := n.path.ToRTS(qp, n.own[i]); err != nil {
			return n.fail(err, "Failed to modify %s to RTS", n.qpName(i))
		}
	}
	if n.Type == verbs.UD {
		var err error
		if n.ah, err = n.pd.CreateAH(n.path.AH(remote[0])); err != nil {
			return n.fail(err, "Failed to create AH")
		}
	}
	return nil
}
