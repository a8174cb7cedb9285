// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"purerdma/cm"
	"purerdma/msg"
	"purerdma/stream"
	"purerdma/verbs"
)

// connectionChecks use the connection manager. Both sides are on this host, even with a peer.
var connectionChecks = []Check{
	{ID: "connections", Local: true, Title: "connections by the connection manager, on this host", needs: needsManager, do: checkConnections},
	{ID: "streams", Local: true, Title: "a byte stream in both directions, on this host", needs: needsManager, do: checkStreams},
	{ID: "calls", Local: true, Title: "calls of each size, on this host", needs: needsManager, do: checkCalls},
}

func needsManager(t *trial) string {
	if !t.target.Addr.IsValid() {
		return "no address of the port's network interface is known (-a)"
	}
	ch, err := cm.NewEventChannel(t.target.Host)
	if err != nil {
		return fmt.Sprintf("no connection manager: %v", err)
	}
	t.must("close an event channel", ch.Close())
	return ""
}

// anyPort is the address to listen on.
func (t *trial) anyPort() string { return netip.AddrPortFrom(t.target.Addr, 0).String() }

func (t *trial) dialer() cm.Dialer {
	return cm.Dialer{Host: t.target.Host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(t.target.Addr, 0))}
}

// both runs the two sides of a connection. The first error ends both.
func (t *trial) both(listening, dialing func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(t.ctx, 2*patience)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		err := listening(ctx)
		if err != nil {
			cancel()
		}
		served <- err
	}()
	err := dialing(ctx)
	if err != nil {
		cancel()
	}
	t.must("connection", errors.Join(err, <-served))
}

func checkConnections(t *trial) {
	lc := cm.ListenConfig{Host: t.target.Host}
	ln, err := lc.Listen(t.ctx, "tcp", t.anyPort())
	t.must("listen", err)
	t.later(ln.Close)
	d := t.dialer()
	for i := range 40 {
		t.both(func(ctx context.Context) error { return echoOne(ctx, ln) }, func(ctx context.Context) error {
			return exchangeOne(ctx, &d, ln.Addr().String(), i)
		})
	}
}

// connMessage is the size of the messages of checkConnections.
const connMessage = 1000

// echoOne accepts a connection, receives a message and sends it back.
func echoOne(ctx context.Context, ln *cm.Listener) error {
	r, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	buf, err := r.Alloc(connMessage, verbs.LocalWrite)
	if err == nil {
		err = r.PostRecv(1, buf.SGE())
	}
	if err != nil {
		return err
	}
	conn, err := r.Accept(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		return err
	}
	if err := conn.Send(ctx, buf.Slice(0, int(wc.ByteLen))); err != nil {
		return err
	}
	// The peer must not disconnect first, because that can flush the echo.
	_, err = conn.Disconnect(ctx)
	return err
}

// exchangeOne connects, sends a message and compares its echo.
func exchangeOne(ctx context.Context, d *cm.Dialer, address string, seed int) error {
	conn, err := d.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	buf, err := conn.Alloc(2*connMessage, verbs.LocalWrite)
	if err != nil {
		return err
	}
	if err := conn.PostRecv(1, buf.Slice(connMessage, connMessage)); err != nil {
		return err
	}
	fillPattern(buf.Bytes()[:connMessage], seed)
	// The echo and the disconnect can arrive before the acknowledgement of the message. Then the echo confirms it.
	if err := conn.Send(ctx, buf.Slice(0, connMessage)); err != nil && !flushedByPeer(conn, err) {
		return err
	}
	if _, err := conn.WaitRecv(ctx); err != nil {
		return err
	}
	if got, want := buf.Bytes()[connMessage:], pattern(seed, connMessage); !bytes.Equal(got, want) {
		return fmt.Errorf("echo: %s", difference(got, want))
	}
	_, err = conn.Wait(ctx)
	return err
}

// flushedByPeer reports whether a SEND failed because the peer had disconnected. siw has another status for that
// (docs/reference/driver-faults.md).
func flushedByPeer(conn *cm.Conn, err error) bool {
	if _, ok := errors.AsType[*cm.DisconnectedError](err); ok {
		return true
	}
	failed, ok := errors.AsType[*verbs.WCError](err)
	return ok && failed.Status == verbs.WCLocQPOpErr && conn.Device().Transport() == verbs.TransportIWARP
}

func checkStreams(t *trial) {
	lc := stream.ListenConfig{CM: cm.ListenConfig{Host: t.target.Host}}
	ln, err := lc.Listen(t.ctx, "tcp", t.anyPort())
	t.must("listen", err)
	t.later(ln.Close)
	data := pattern(1, 4<<20)
	d := stream.Dialer{CM: t.dialer()}
	t.both(func(ctx context.Context) error {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		return echoStream(ctx, conn)
	}, func(ctx context.Context) error {
		conn, err := d.DialContext(ctx, "tcp", ln.Addr().String())
		if err != nil {
			ln.Close() // Accept has no context
			return err
		}
		return sendStream(ctx, conn, data)
	})
}

// echoStream sends everything back that it reads.
func echoStream(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, err := io.Copy(conn, conn)
	return err
}

// sendStream writes data and reads it back at the same time.
func sendStream(ctx context.Context, conn net.Conn, data []byte) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(data)
		written <- err
	}()
	got := make([]byte, len(data))
	_, err := io.ReadFull(conn, got)
	if err != nil {
		conn.Close() // ends the write
	}
	err = errors.Join(err, <-written)
	if err == nil && !bytes.Equal(got, data) {
		err = fmt.Errorf("stream: %s", difference(got, data))
	}
	return err
}

func checkCalls(t *trial) {
	lc := msg.ListenConfig{CM: cm.ListenConfig{Host: t.target.Host}}
	ln, err := lc.Listen(t.ctx, "tcp", t.anyPort())
	t.must("listen", err)
	t.later(ln.Close)
	d := msg.Dialer{CM: t.dialer()}
	t.both(func(ctx context.Context) error { return answerCalls(ctx, ln) }, func(ctx context.Context) error {
		conn, err := d.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		for i, size := range sizes {
			if size > conn.MaxLen() {
				break
			}
			if err := callOne(ctx, conn, i, size); err != nil {
				return fmt.Errorf("call with %d bytes: %w", size, err)
			}
		}
		return nil
	})
}

// answerCalls answers each call with its data until the peer closes the connection.
func answerCalls(ctx context.Context, ln *msg.Listener) error {
	conn, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		m, err := conn.Receive(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = m.Reply(ctx, m.Tag()+1, m.Bytes())
		m.Free()
		if err != nil {
			return err
		}
	}
}

func callOne(ctx context.Context, conn *msg.Conn, seed, size int) error {
	want := pattern(seed, size)
	reply, err := conn.Call(ctx, uint64(seed), want)
	if err != nil {
		return err
	}
	defer reply.Free()
	if reply.Tag() != uint64(seed)+1 || !bytes.Equal(reply.Bytes(), want) {
		return fmt.Errorf("tag %d, want %d; %s", reply.Tag(), seed+1, difference(reply.Bytes(), want))
	}
	return nil
}
