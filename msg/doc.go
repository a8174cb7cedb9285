// SPDX-License-Identifier: Apache-2.0

// Package msg sends messages and makes calls over RDMA, on InfiniBand, RoCE and iWARP.
//
//	conn, err := msg.Dial(ctx, "tcp", "10.8.0.1:7471")
//	...
//	reply, err := conn.Call(ctx, getKey, []byte("key"))
//	...
//	defer reply.Free()
//	use(reply.Bytes())
//
// and on the other side:
//
//	ln, err := msg.Listen(ctx, "tcp", ":7471")
//	...
//	conn, err := ln.Accept(ctx)
//	...
//	for {
//		m, err := conn.Receive(ctx)
//		...
//		go func() {
//			defer m.Free()
//			m.Reply(ctx, found, store[string(m.Bytes())])
//		}()
//	}
//
// Each [Message] has a tag of 64 bits, whose meaning the program defines. Both sides of a connection can
// send one-way messages ([Conn.Send]) and make calls ([Conn.Call]). Any number of goroutines can do so
// at a time. Received messages stay in the memory of their receives, without a copy, until
// [Message.Free].
//
// # Lent memory
//
// A message has at most Conn.MaxLen bytes. For longer data, a call lends memory ([Conn.Do]), which the
// serving side reads or writes one-sided:
//
//	reply, err := conn.Do(ctx, &msg.Request{Tag: fill, Write: msg.Memory{Bytes: data}})
//
// and on the other side:
//
//	err := m.WriteLent(ctx, mr.SGE(), 0)
//	...
//	m.Reply(ctx, 0, nil)
//
// The peer can no longer reach the memory when Do returns. Transfers are divided into chunks, so that messages
// do not wait behind them. [Conn.Lend] lends memory until [Loan.Close]. Its [Token] can travel over
// any channel. A wrong or late use of lent memory costs its user the connection, and has no effect on others.
//
// # Streams of replies
//
// [Conn.Stream] makes a call with several replies, which the peer sends by [Message.ReplyPart]. They have
// credits of their own.
//
// # Flow control
//
// Each side keeps Options.Window receives for messages and requests, and Options.Calls receives for the
// replies to its own calls. A side sends a message or a request only with a credit of its peer, which grants
// it again when the message was freed. So a program that does not free its messages stops only the
// goroutines of the peer that send on this connection. A reply needs no credit, because its receive belongs to
// the call. So two sides that call each other at a time do not wait for each other.
//
// # Protocol
//
// The private data of the connect request and of its acceptance has a hello with the version, the size of
// the receives and their numbers. A peer without a hello is refused. No side can reach memory of
// the other that was not lent. Each message is one SEND with a header of 32 bytes. The header counts the
// credits that its sender has used and granted in total. A peer that violates the protocol loses the
// connection.
//
// # Contexts
//
// A call whose context has ended sends nothing, even if it need not wait. It returns the error of the context.
// The connection goes on. [Conn.Receive] and [Replies.Next] return a message that has already arrived.
//
// # Errors
//
// Errors are of type *cm.OpError. They wrap a *RemoteError, syscall.EPROTO, or an error of package cm
// that describes the end of the connection. errors.Is finds syscall.ECONNRESET in the error after
// the peer has disconnected.
package msg
