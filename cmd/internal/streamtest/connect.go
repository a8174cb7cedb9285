// SPDX-License-Identifier: Apache-2.0

package streamtest

import (
	"cmp"
	"context"
	"net"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/rsocket"
)

// busyWait is the time that a waiting goroutine polls before it sleeps, unless -T a or -T b is given. The C
// program repeats its calls, which do not block, until they succeed.
const busyWait = time.Second

// meeting makes the connections of a program.
type meeting struct {
	opt           *options
	ui            *tool.UI
	local, remote cm.Addr
	ln            net.Listener // on the server
}

// rsocketOptions returns the options of the connections. setsockopt doubles the sizes of buffers.
func (m *meeting) rsocketOptions(inline int) rsocket.Options {
	size := 2 * cmp.Or(m.opt.buffer, defaultBuffer)
	o := rsocket.Options{SendBuffer: max(size, 4096), RecvBuffer: max(size, 4096), Inline: inline, Maps: m.opt.kind.Maps, KeepAlive: -1}
	if inline == 0 {
		o.Inline = -1
	}
	if !m.opt.async && !m.opt.block {
		o.Spin = busyWait
	}
	if m.opt.keepAlive > 0 {
		o.KeepAlive = time.Duration(m.opt.keepAlive) * time.Second
	}
	return o
}

// listen starts to listen on the server.
func (m *meeting) listen(ctx context.Context, inline int) (err error) {
	if m.opt.tcp {
		m.ln, err = new(net.ListenConfig).Listen(ctx, "tcp", m.local.AddrPort.String())
	} else {
		lc := rsocket.ListenConfig{Options: m.rsocketOptions(inline), CM: cm.ListenConfig{Backlog: 1, ReuseAddr: true}}
		m.ln, err = lc.ListenAddr(m.local)
	}
	if err != nil {
		m.ui.Perror("rlisten", err)
	}
	return err
}

// connection returns the next connection. inline is the size of inline messages in bytes.
func (m *meeting) connection(ctx context.Context, inline int) (conn net.Conn, err error) {
	if m.ln != nil {
		m.showKeepAlive()
		if conn, err = tool.AcceptConn(ctx, m.ln, m.ui.Fail); err != nil {
			m.ui.Perror("raccept", err)
			return nil, err
		}
	} else if m.opt.tcp {
		d := net.Dialer{}
		if m.local.IsValid() {
			d.LocalAddr = net.TCPAddrFromAddrPort(m.local.AddrPort)
		}
		conn, err = d.DialContext(ctx, "tcp", m.remote.AddrPort.String())
	} else {
		d := rsocket.Dialer{Options: m.rsocketOptions(inline), CM: cm.Dialer{LocalAddr: m.local}}
		conn, err = d.DialAddr(ctx, m.remote)
	}
	if err != nil {
		m.ui.Perror("rconnect", err)
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok && m.opt.keepAlive > 0 {
		tcp.SetKeepAlivePeriod(time.Duration(m.opt.keepAlive) * time.Second)
	}
	m.showKeepAlive()
	return conn, nil
}

// showKeepAlive prints the lines that C prints for each socket.
func (m *meeting) showKeepAlive() {
	if m.opt.keepAlive > 0 {
		m.ui.Printf("Keepalive: ON\n  time: %d\n", m.opt.keepAlive)
	}
}
