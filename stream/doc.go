// SPDX-License-Identifier: Apache-2.0

// Package stream implements net.Conn and net.Listener over RDMA, on InfiniBand, RoCE and iWARP.
//
//	ln, err := stream.Listen(ctx, "tcp", ":8080")
//	...
//	err = http.Serve(ln, handler)
//
// and on the other side:
//
//	var d stream.Dialer
//	client := &http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
//
// DialContext also fits clients of gRPC (grpc.WithContextDialer), of Redis (redis.Options.Dialer of go-redis) and of
// PostgreSQL (pgconn.Config.DialFunc of pgx).
//
// # Protocol
//
// Each side posts receives, and the other side sends messages into them. Neither side can read or write
// the memory of the other. The private data of the connect request and of its acceptance has a hello. It
// contains the version of the protocol, and the size and the number of the sender's receives. A peer
// without a hello is refused.
//
// Each message is a frame with a header, which data may follow. A side sends only as many frames as its
// peer has granted it credits. Each frame also has the number of credits that its sender has granted in
// total, so credits need no frame of their own while data flows both ways. The last credit is only used
// for a frame that grants credits. So two sides whose windows are full do not wait for each other.
//
// The connections of a Listener share their receives. The peer of each connection has 3 credits as long as
// the connection exists, and gets more while it sends much. A peer returns the credits above 3 after a
// second in which it has sent nothing. All credits together are never more than the posted receives.
//
// Small writes are sent together while data is in flight. Writes copy, and so do reads. WriteBuf,
// Peek and Discard do not.
//
// # Errors
//
// At the end of the peer's stream, Read returns io.EOF. All other errors have the type *net.OpError of
// package net. Their cause is os.ErrDeadlineExceeded, net.ErrClosed or syscall.EPIPE, as in that package.
// It is syscall.ECONNRESET after a Close of the peer, and syscall.EPROTO after a violation of the protocol. After a
// failure it wraps syscall.ECONNRESET and the reason, such as a *verbs.DeviceRemovedError.
// Data that has arrived before a failure can still be read.
package stream
