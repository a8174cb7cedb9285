// SPDX-License-Identifier: Apache-2.0

// Package streamconn implements net.Conn on any protocol that moves a byte stream over RDMA.
//
// A [Protocol] moves bytes between its buffers and the peer. A [Conn] adds the parts of net.Conn
// that do not depend on the protocol. It serializes readers and writers, and waits for bytes and for
// space. Deadlines and Close end its waits. It wraps errors as package net does.
//
// The protocol calls [WakeReader] and [WakeWriter] when a call of View or Space may
// return more than before.
package streamconn
