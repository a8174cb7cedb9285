// SPDX-License-Identifier: Apache-2.0

// Package rsocket implements the stream protocol of librdmacm's rsockets (rsocket(7)). Its connections are
// net.Conns. The peer may be a C program that calls rsocket functions, any C program under
// librspreload, or a Go program with this package.
//
//	ln, err := rsocket.Listen(ctx, "tcp", ":7471")
//	...
//	conn, err := new(rsocket.Dialer).DialContext(ctx, "tcp", "10.8.0.1:7471")
//
// As in package cm, an address is the address of an RDMA device, and a port belongs to the RDMA port
// space.
//
// # Protocol
//
// Each side registers a receive buffer. The sender writes its bytes there by RDMA WRITE, and each WRITE
// carries a message of 32 bits as immediate data. On iWARP, which has no immediate data, a SEND of 4 bytes
// follows each WRITE. When a half of its buffer is free, a side writes the address of that half to a short
// list in the peer's memory. It also grants credits, because each message needs a posted receive. The
// private data, the messages and the lists have the layout of rdma-core. The lists are in the byte order
// of the side that reads them.
//
// This package posts a few more receives than the peer has credits. A peer that follows the protocol
// therefore never finds the receive queue empty (RNR).
//
// # Differences from rdma-core
//
// A Write returns when its bytes are copied to the send buffer. Small writes are sent together while an
// earlier message is in flight. Close waits until the sends of all bytes have completed: see
// SetLinger of [Conn]. On InfiniBand and RoCE the peer's device has then acknowledged them. On iWARP only TCP
// has taken them. If the peer vanishes without a disconnect message, Read fails with syscall.ECONNRESET.
// rdma-core reports the end of the stream in this case. An idle peer is probed every 15 seconds. The files
// in /etc/rdma/rsocket are not read. Their settings are fields of [Options].
//
// Datagram rsockets are not supported.
//
// # Peers that are not trusted
//
// Each connection has its own protection domain, so a peer can write only to the buffers of its own
// connection. The device writes there without the program, also to bytes that were received and not yet
// read. A peer that violates the protocol ends its connection, with an error that wraps syscall.EPROTO on this side. The
// limits of a ListenConfig bound the connections, and so the memory.
//
// # Costs
//
// Beyond the costs of a cm.Conn, a connection has one goroutine, and the memory of its two buffers. A transfer allocates nothing.
//
// A waiting Read or Write polls the completion queue itself. The goroutine polls if none has waited for a
// millisecond. So a program that computes for longer delays its own written bytes, and the credits of its peer,
// by up to two milliseconds.
package rsocket
