// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"purerdma/cmd/internal/tool"
)

// oob is the way by which the peers keep in step, over TCP: the first one, who
// could bind the controller's address, is the root, and all others its leaves.
type oob struct {
	ln    net.Listener // the root's, until it has all its leaves
	conns []net.Conn   // the root's to each leaf, in the order of their hellos; a leaf's to the root
	root  bool
	stop  func() bool
}

// meet finds out which peer this is: the root, which then listens for its leaves, or a
// leaf, which it connects to the root.
func meet(ctx context.Context, opt *meshOptions, u *tool.UI) (*oob, error) {
	o := &oob{}
	addr := net.JoinHostPort(opt.controller, opt.port)
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL):
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		o.conns = []net.Conn{conn}
		o.stop = context.AfterFunc(ctx, o.hangUp)
	case err != nil:
		return nil, err
	default:
		u.Printf("Running as OOB root\n")
		o.root, o.ln = true, ln
	}
	return o, nil
}

// joined waits at the root until one connection has been made. It is for -S, whose
// only leaf sends nothing: a stranger cannot be told from it.
func (o *oob) joined(ctx context.Context) error {
	if !o.root {
		return nil
	}
	defer context.AfterFunc(ctx, func() { o.ln.Close() })()
	defer o.ln.Close()
	conn, err := o.ln.Accept()
	if err != nil {
		return err
	}
	o.conns = []net.Conn{conn}
	o.stop = context.AfterFunc(ctx, o.hangUp)
	return nil
}

// sync waits until all peers have come to the same point, which step names.
func (o *oob) sync(step meshStep) error {
	mine := []byte{byte(step)}
	if !o.root {
		if _, err := o.conns[0].Write(mine); err != nil {
			return err
		}
	}
	for _, c := range o.conns {
		var theirs [1]byte
		if _, err := io.ReadFull(c, theirs[:]); err != nil {
			return fmt.Errorf("peer %v: %w", c.RemoteAddr(), err)
		}
		if theirs[0] != mine[0] {
			return fmt.Errorf("peer %v is at step %d, we are at %d", c.RemoteAddr(), theirs[0], mine[0])
		}
	}
	if o.root {
		return o.tell(mine)
	}
	return nil
}

// tell sends something to all leaves.
func (o *oob) tell(b []byte) error {
	for _, c := range o.conns {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// exchange tells all peers of each other. The root is the first of them. It ends with
// ctx, as does all that waits on the oob afterwards.
func (o *oob) exchange(ctx context.Context, self peer, n int, u *tool.UI) ([]peer, error) {
	all := self.append(nil)
	if !o.root {
		if err := o.tell(all); err != nil {
			return nil, err
		}
		all = make([]byte, n*peerSize)
		if _, err := io.ReadFull(o.conns[0], all); err != nil {
			return nil, err
		}
		return decodePeers(all)
	}
	w := &tool.Welcome[[peerSize]byte]{Listener: o.ln, Read: readHello, Refused: func(conn net.Conn, err error) {
		u.Errorf("cmtime: connection from %v is not a peer's: %v\n", conn.RemoteAddr(), err)
	}}
	leaves, err := w.Gather(ctx, n-1)
	for _, l := range leaves {
		o.conns = append(o.conns, l.Conn)
		all = append(all, l.Hello[:]...)
	}
	if err != nil {
		return nil, err
	}
	o.stop = context.AfterFunc(ctx, o.hangUp)
	peers, err := decodePeers(all)
	if err != nil {
		return nil, err
	}
	return peers, o.tell(all)
}

// readHello reads what a leaf tells of itself.
func readHello(conn net.Conn) (b [peerSize]byte, err error) {
	if _, err = io.ReadFull(conn, b[:]); err == nil {
		_, err = decodePeer(b[:])
	}
	return b, err
}

func (o *oob) hangUp() {
	for _, c := range o.conns {
		c.Close()
	}
}

func (o *oob) close() {
	if o.stop != nil {
		o.stop()
	}
	if o.ln != nil {
		o.ln.Close()
	}
	o.hangUp()
}
