// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// baseline measures TCP sockets instead of RDMA connections.
func (m *mesh) baseline(ctx context.Context) error {
	m.state.conns = make([]*meshConn, m.opt.conns)
	for i := range m.state.conns {
		m.state.conns[i] = new(meshConn)
	}
	m.qps = false
	if m.opt.listen {
		return m.baselineServer(ctx)
	}
	return m.baselineClient(ctx)
}

func (m *mesh) baselineServer(ctx context.Context) error {
	m.u.Printf("Server baseline socket setup\n")
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", net.JoinHostPort(m.opt.source, m.opt.port))
	if err != nil {
		return err
	}
	defer ln.Close()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	m.u.Printf("Accept sockets\n")
	socks := make([]net.Conn, m.opt.conns)
	for i := range socks {
		if socks[i], err = ln.Accept(); err != nil {
			return err
		}
		defer socks[i].Close()
		if i == 0 {
			m.totals[meshFullConnect].start()
		}
	}
	m.totals[meshFullConnect].stop()
	m.closeSockets(socks)
	m.u.Printf("Server baseline socket results:\n")
	printMeshTable(m.u, &m.totals, m.state.conns, m.opt.threads, false)
	return nil
}

// baselineClient creates and connects each socket in one call. Go cannot create a socket
// separately, so the creation step takes no time.
func (m *mesh) baselineClient(ctx context.Context) error {
	m.u.Printf("Client baseline socket setup\n")
	addr := net.JoinHostPort(m.opt.controller, m.opt.port)
	m.totals[meshFullConnect].start()
	m.u.Printf("Creating sockets\nConnecting sockets\n")
	socks := make([]net.Conn, m.opt.conns)
	defer func() {
		for _, s := range socks {
			if s != nil {
				s.Close()
			}
		}
	}()
	index := map[*meshConn]int{}
	for i, c := range m.state.conns {
		index[c] = i
	}
	err := m.spread(ctx, meshConnect, m.state.conns, func(c *meshConn) {
		c.times[meshConnect].start()
		s, err := dialSocket(ctx, addr)
		c.times[meshConnect].stop()
		socks[index[c]] = s
		m.step(meshConnect, err)
	})
	if err != nil {
		return err
	}
	m.totals[meshFullConnect].stop()
	m.closeSockets(socks)
	m.u.Printf("Client baseline socket results:\n")
	printMeshTable(m.u, &m.totals, m.state.conns, m.opt.threads, false)
	return nil
}

// listenTime is the time limit for the server to listen again. It listens at the address of the
// peers' meeting. A client that connects too early is refused, or is reset when that meeting
// ends.
const listenTime = 5 * time.Second

func dialSocket(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	for end := time.Now().Add(listenTime); ; time.Sleep(time.Millisecond) {
		s, err := d.DialContext(ctx, "tcp4", addr)
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) || time.Now().After(end) {
			return s, err
		}
	}
}

func (m *mesh) closeSockets(socks []net.Conn) {
	m.u.Printf("Closing sockets\n")
	m.totals[meshDestroyID].start()
	for _, s := range socks {
		s.Close()
	}
	m.totals[meshDestroyID].stop()
}
