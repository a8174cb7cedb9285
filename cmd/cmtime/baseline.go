// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// listenTime is the time limit for the server to listen again, if it does not keep the
	// listener of the peers' meeting. rdma-core's server does not keep it.
	listenTime = 5 * time.Second
	// acceptTime is the time limit for the server to accept and close all sockets after the
	// client has connected them, and for the client to connect its next socket.
	acceptTime = 60 * time.Second
	// lateTime is the time limit for sockets that reach the server after the client has ended.
	lateTime = 5 * time.Second
)

// baseline measures TCP sockets instead of RDMA connections.
func (m *mesh) baseline(ctx context.Context) error {
	m.state.conns = make([]*meshConn, m.opt.conns)
	for i := range m.state.conns {
		m.state.conns[i] = new(meshConn)
	}
	defer m.hangUp()
	m.qps = false
	if m.opt.listen {
		return m.baselineServer(ctx, acceptTime, lateTime)
	}
	return m.baselineClient(ctx)
}

// baselineServer accepts all sockets and closes them. It fails if the next socket does not come within a time
// limit, and if some have not come until late has passed since the client left the meeting.
func (m *mesh) baselineServer(ctx context.Context, limit, late time.Duration) error {
	m.u.Printf("Server baseline socket setup\n")
	ln, err := m.socketListener(ctx)
	if err != nil {
		return err
	}
	defer ln.Close()
	ctx, stop := endWith(ctx, m.oob.conns[0], late)
	defer stop()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	m.u.Printf("Accept sockets\n")
	for i, c := range m.state.conns {
		if c.sock, err = m.oob.accept(ln, limit, m.u); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("accept socket %d of %d: %w", i+1, len(m.state.conns), err)
		}
		if i == 0 {
			m.totals[meshFullConnect].start()
		}
	}
	m.totals[meshFullConnect].stop()
	m.closeSockets()
	m.u.Printf("Server baseline socket results:\n")
	printMeshTable(m.u, &m.totals, m.state.conns, m.opt.threads, false)
	return nil
}

// socketListener returns the listener of the baseline sockets. The root keeps the listener of
// the meeting, because a client may connect its sockets immediately after it has joined. The
// kernel would reset the sockets in the queue of a listener that closes.
func (m *mesh) socketListener(ctx context.Context) (net.Listener, error) {
	if m.oob.root {
		return m.oob.ln, nil
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp4", net.JoinHostPort(m.opt.source, m.opt.port))
}

// endWith returns a context that ends at the time late after the peer has closed conn. stop
// releases it. conn cannot be read afterwards.
func endWith(ctx context.Context, conn net.Conn, late time.Duration) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		io.Copy(io.Discard, conn)
		select {
		case <-time.After(late):
			cancel(fmt.Errorf("peer %v has ended", conn.RemoteAddr()))
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		conn.SetReadDeadline(time.Now())
		watch.Wait()
	}
}

// baselineClient creates and connects each socket in one call. Go cannot create a socket
// separately, so the creation step takes no time.
func (m *mesh) baselineClient(ctx context.Context) error {
	m.u.Printf("Client baseline socket setup\n")
	if m.oob.root {
		m.oob.ln.Close() // the server may listen at its address
	}
	addr := net.JoinHostPort(m.opt.controller, m.opt.port)
	m.totals[meshFullConnect].start()
	m.u.Printf("Creating sockets\nConnecting sockets\n")
	if err := m.connectSockets(ctx, addr); err != nil {
		return err
	}
	if err := m.awaitServer(ctx, addr); err != nil {
		return err
	}
	m.closeSockets()
	m.u.Printf("Client baseline socket results:\n")
	printMeshTable(m.u, &m.totals, m.state.conns, m.opt.threads, false)
	return nil
}

func (m *mesh) connectSockets(ctx context.Context, addr string) error {
	err := m.spread(ctx, meshConnect, m.state.conns, func(c *meshConn) {
		c.times[meshConnect].start()
		m.step(meshConnect, c.dial(ctx, addr))
	})
	m.totals[meshFullConnect].stop()
	return err
}

// awaitServer waits until the server has closed all sockets. Servers do that after they have
// accepted all of them. A socket that is reset was in the queue of the meeting's listener, which
// closed before the server listened again. awaitServer connects such a socket again, but only
// once, because the kernel resets the queue after it has removed the listener.
func (m *mesh) awaitServer(ctx context.Context, addr string) error {
	ctx, stop := context.WithTimeoutCause(ctx, acceptTime, errors.New("await server: it has not accepted all sockets in time"))
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var waits sync.WaitGroup
	for _, c := range m.state.conns {
		waits.Go(func() {
			err := awaitClose(ctx, c.sock)
			if errors.Is(err, syscall.ECONNRESET) {
				c.sock.Close()
				if err = c.dial(ctx, addr); err == nil {
					m.state.Do(func() {
						m.totals[meshConnect].stop()
						m.totals[meshFullConnect].stop()
					})
					err = awaitClose(ctx, c.sock)
				}
			}
			if err != nil {
				cancel(fmt.Errorf("await server: %w", err))
			}
		})
	}
	waits.Wait()
	return context.Cause(ctx)
}

// awaitClose waits until the peer, which sends nothing, has closed s. The end of ctx closes s.
func awaitClose(ctx context.Context, s net.Conn) error {
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if _, err := s.Read(make([]byte, 1)); err != io.EOF {
		return err
	}
	return nil
}

// dial connects the connection's socket.
func (c *meshConn) dial(ctx context.Context, addr string) (err error) {
	c.sock, err = dialSocket(ctx, addr)
	c.times[meshConnect].stop()
	return err
}

// dialSocket connects to the server. A client that connects before the server listens again is
// refused, or is reset when the meeting's listener closes.
func dialSocket(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	for end := time.Now().Add(listenTime); ; time.Sleep(time.Millisecond) {
		s, err := d.DialContext(ctx, "tcp", addr)
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) || time.Now().After(end) {
			return s, err
		}
	}
}

func (m *mesh) closeSockets() {
	m.u.Printf("Closing sockets\n")
	m.totals[meshDestroyID].start()
	m.hangUp()
	m.totals[meshDestroyID].stop()
}

// hangUp closes all sockets of the baseline.
func (m *mesh) hangUp() {
	for _, c := range m.state.conns {
		if c.sock != nil {
			c.sock.Close()
		}
	}
}
