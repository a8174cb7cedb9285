// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"purerdma/cmd/internal/tool"
)

// oob keeps the peers in step over TCP. The peer that could bind the controller's address is
// the root, and all others are its leaves.
type oob struct {
	ln    net.Listener // listener of the root, until it has all leaves. With -S the baseline closes it
	conns []net.Conn   // of the root to each leaf in the order of their hellos, or of a leaf to the root
	root  bool
	limit time.Duration // time that the other peers have to reach a step that this peer has reached
	// socket is the first socket of the leaf, from joined to accept.
	socket net.Conn
	stop   func() bool
}

// meet determines whether this peer is the root, which then listens for its leaves, or a leaf.
// It connects a leaf to the root.
func meet(ctx context.Context, opt *meshOptions, u *tool.UI) (*oob, error) {
	o := &oob{limit: opt.syncTime()}
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

// joined waits at the root until the leaf has joined. It is for -S, where the leaf sends nothing that the root could
// check. If this peer is the server, the leaf connects its sockets immediately after it has joined. So the leaf is the
// first host with two connections within tool.HelloTime. The second one is its first socket. Connections of other
// hosts are closed. If this peer is the client, the leaf is the first connection. The listener stays open for the
// baseline.
func (o *oob) joined(ctx context.Context, server bool, u *tool.UI) error {
	if !o.root {
		return nil
	}
	defer context.AfterFunc(ctx, func() { o.ln.Close() })()
	hosts := map[netip.Addr]arrival{}
	defer func() {
		for _, a := range hosts {
			u.Errorf("cmtime: connection from %v is not a peer\n", a.conn.RemoteAddr())
			a.conn.Close()
		}
	}()
	for {
		conn, err := tool.AcceptConn(ctx, o.ln, u.Fail)
		if err != nil {
			return err
		}
		if server {
			host := hostOf(conn)
			first, ok := hosts[host]
			if !ok || time.Since(first.at) > tool.HelloTime {
				if ok {
					first.conn.Close()
				}
				hosts[host] = arrival{conn, time.Now()}
				continue
			}
			delete(hosts, host)
			conn, o.socket = first.conn, conn
		}
		o.conns = []net.Conn{conn}
		o.stop = context.AfterFunc(ctx, o.hangUp)
		return nil
	}
}

// arrival is the first connection of a host.
type arrival struct {
	conn net.Conn
	at   time.Time
}

// hostOf returns the IP address of the peer.
func hostOf(conn net.Conn) netip.Addr {
	return conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
}

// accept returns the next socket of the leaf, which connects to the root's listener. It closes the sockets of other
// hosts, and fails if the leaf does not connect within the time limit.
func (o *oob) accept(ln net.Listener, limit time.Duration, u *tool.UI) (net.Conn, error) {
	if s := o.socket; s != nil {
		o.socket = nil
		return s, nil
	}
	if err := ln.(*net.TCPListener).SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	for {
		s, err := ln.Accept()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("peer %v has not connected for %v: %w", o.conns[0].RemoteAddr(), limit, err)
		}
		if err != nil || !o.root || hostOf(s) == hostOf(o.conns[0]) {
			return s, err
		}
		u.Errorf("cmtime: connection from %v is not a peer\n", s.RemoteAddr())
		s.Close()
	}
}

// sync waits until all peers have reached the same point, which is identified by step. It fails when a peer ends, when
// TCP finds that its host has vanished, and when the time limit has passed. The root may itself be late and then waits
// for the other leaves, so a leaf waits twice as long.
func (o *oob) sync(step meshStep) error {
	mine, limit := []byte{byte(step)}, o.limit
	if !o.root {
		limit *= 2
		if _, err := o.conns[0].Write(mine); err != nil {
			return err
		}
	}
	end := time.Now().Add(limit)
	for _, c := range o.conns {
		var theirs [1]byte
		c.SetReadDeadline(end)
		_, err := io.ReadFull(c, theirs[:])
		c.SetReadDeadline(time.Time{})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("peer %v is not at step %q after %v: %w", c.RemoteAddr(), meshStepNames[step], limit, err)
		}
		if err != nil {
			return fmt.Errorf("peer %v: %w", c.RemoteAddr(), err)
		}
		if theirs[0] != mine[0] {
			return fmt.Errorf("peer %v is at step %d, want step %d", c.RemoteAddr(), theirs[0], mine[0])
		}
	}
	if o.root {
		return o.tell(mine)
	}
	return nil
}

// tell sends b to all leaves.
func (o *oob) tell(b []byte) error {
	for _, c := range o.conns {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// exchange distributes all peers' descriptions to each peer. The root is the first of them. The
// end of ctx ends the exchange and all later operations of the oob.
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
		u.Errorf("cmtime: connection from %v is not a peer: %v\n", conn.RemoteAddr(), err)
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

// readHello reads a leaf's description.
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
	if o.socket != nil {
		o.socket.Close()
	}
	o.hangUp()
}
