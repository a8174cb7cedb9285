// SPDX-License-Identifier: Apache-2.0

// Package pool provides registered memory of one protection domain in pieces of any size.
//
//	p, err := pool.New(conn.PD(), pool.Config{})
//	...
//	defer p.Close()
//	b, err := p.Get(ctx, len(msg))
//	...
//	defer b.Free()
//	copy(b.Bytes(), msg)
//	err = conn.Send(ctx, b.SGE())
//
// A [Pool] registers memory in slabs and divides them. [Pool.Get] and [Buf.Free] need no system call
// and no allocation if memory of the size was freed before. [Config] bounds the registered memory,
// and Get waits for free memory when the bound is reached. A program that holds Bufs while it waits
// for others can wait for ever, so it should use a context with a deadline, or [Pool.TryGet].
//
// Slabs stay registered until Close, or until a request of another size needs their bytes. Slabs are on
// huge pages if the administrator has reserved some (/proc/sys/vm/nr_hugepages), and on the NUMA node of
// the device if the kernel names it. [Pool.Copy] and [Pool.Borrow] are for ordinary slices.
//
// # References
//
// A [Buf] counts references. Memory that a device may still use must not be handed to another user.
// So the program takes one more reference for each operation in flight:
//
//	qp.PostSend([]verbs.SendWR{{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{b.Ref().SGE()}}})
//	...
//	b.Free() // when the completion of id has come, even if the operation failed
//
// cm.Conn.StartSend and inflight.Queue.Start take such a reference and free it.
//
// A request is in flight from its post until its completion, even if its context has ended.
// [verbs.QP.Close] ends all requests of the QP. After it returns without an error, all references of its
// requests may be freed. If a post fails, the requests that were not posted are not in flight, and the
// program frees their references.
//
// # Debug mode
//
// With PURERDMA_POOL_DEBUG=1 in the environment, a pool checks for mistakes. The package reads
// the variable once.
//
//   - A method of a freed Buf panics with the stacks of the Free and of the use.
//   - Freed memory is filled with the byte 0xdb. If it has changed when it is handed out again, a
//     write came after the Free, by the program or by a device. Get then panics with the stack of the
//     Free. New memory has the same content, so that programs that expect zeros fail.
//   - Free panics if bytes behind the end of the Buf were written.
//   - Close returns an error that lists the Bufs in use with the stack of their Get.
//
// Debug mode is for tests. In a pool with remote rights, a peer can make the program panic by a
// write to memory that is free.
package pool
