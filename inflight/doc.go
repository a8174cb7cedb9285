// SPDX-License-Identifier: Apache-2.0

// Package inflight runs many operations at a time on the send queue of a QP, and receives messages into
// the memory of a pool, for any number of goroutines. Package cm uses it for the calls of a
// connection.
//
//	q, err := inflight.New(qp, inflight.Config{MaxReads: 16})
//	...
//	var ops []inflight.Op
//	for i, part := range parts {
//		op, err := q.Start(ctx, &verbs.SendWR{Opcode: verbs.OpRead, SGList: []verbs.SGE{bufs[i].SGE()},
//			RemoteAddr: part.Addr, RKey: part.RKey}, bufs[i].Ref())
//		...
//		ops = append(ops, op)
//	}
//	for _, op := range ops {
//		if err := op.Wait(ctx); err != nil {
//			...
//		}
//	}
//
// A [Queue] posts requests in the order of the calls, with one doorbell for all requests that
// have gathered. While the send queue is full, operations wait. The goroutines that wait for
// operations also poll the CQ, so there is no other goroutine between a completion and its
// caller.
//
// # Receives
//
// A [Receiver] keeps receives posted, with buffers of a pool, and hands out each [Message] in its
// buffer:
//
//	r, err := inflight.NewReceiver(qp, p, inflight.ReceiveConfig{Size: 4096})
//	...
//	m, err := r.Receive(ctx)
//	...
//	defer m.Free()
//
// [SharedReceives] are receives of many QPs on one SRQ. A [Poller] makes QPs that share a few CQs.
//
// # Memory
//
// The memory of an operation belongs to the device until the operation has completed. A [Holder],
// such as a *pool.Buf, is freed at that time. With a Holder, a goroutine may give up an operation by
// [Op.Abandon]. The connection continues, and the memory comes back later. Without a Holder, the memory
// must not be used until [Op.Wait] has returned the result, or the QP has been closed.
//
// # Errors
//
// A request that fails moves the QP to the error state. The requests behind it then fail with the
// status verbs.WCWRFlushErr. On the QP of a connection, cm.Conn.Explain finds the first failure.
package inflight
