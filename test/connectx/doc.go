// SPDX-License-Identifier: Apache-2.0

// Package connectx implements a software ConnectX, a device model of an HCA. It executes
// firmware commands, reads work requests and writes completions according to the PRM, so that
// drivers run on it as on the card.
//
// A [Device] has three interfaces, which are independent of their user:
//
//   - [Device.Exec] executes one firmware command
//   - [Device.Ring] handles a store to a doorbell register
//   - [Config.Interrupt] delivers interrupts
//
// A [Function] is a device on a PCI bus. It has the registers with which a kernel's driver
// starts it and issues commands. Package vfiouser attaches it to a virtual machine, as rdmavm
// -driver mlx5 does. Linux's mlx5_core, mlx5e and mlx5_ib drive it there like a card.
//
// All other communication uses the host's memory through the interface [Memory]. It is the
// memory of a virtual machine or of this process.
//
// Devices on one [Fabric] can communicate. The fabric has a single lock for all its devices. A
// message changes two devices, and its effects on both become visible at once. Interrupts are
// delivered after the lock is released, so that a handler may use the device.
//
// Package prm contains the opcodes, statuses and layouts of structs, because programs that act as
// the driver also need them.
//
// # Features
//
// The device implements transports RC, UC, UD, XRC and DC with SEND, WRITE, READ and 64-bit
// atomics. It implements memory windows and UMR, shared receive queues, multicast, and
// completions of 64 and 128 bytes with inline data. It makes all checks of a card, for keys,
// domains, rights, bounds, states, and room in queues. Messages have the sequence numbers of
// their packets and are acknowledged. Lost messages are repeated according to the QP's retry
// count and timeout, and are not executed twice.
//
// A message crosses the fabric as a whole. A message or its answer can be lost or late, but not
// one packet of many, so a large message never arrives in part. A fabric has no congestion and
// its own order. A message is executed when its doorbell rings, so that data and completions
// arrive earlier than on any card.
//
// Like every card, it offers short data in completions, enhanced connection establishment (ECE)
// options, which it does not use itself, a key for discarded memory, and register pages of 4
// KiB.
//
// A completion queue may use compression, but the device's capabilities do not offer it. The
// device has no InfiniBand link layer, no signatures and no DEVX. Pages of memory may be
// missing, which Linux uses for dma-bufs. The device has no page faults, so a request for a
// missing page fails.
//
// # Strictness, faults, traces
//
// With [Config.Violation] a device is strict. It reports operations that a driver must not do,
// even if a card might not detect them. Examples are reserved bits, work requests with a wrong
// length, and doorbells before their request. The recorded requests of libmlx5 (test/oracle)
// verify that the rules are correct.
//
// The device shares a driver's assumptions about cards where no card was available for
// verification. [Device.SetQuirks] makes the device deviate from them.
//
// Tests inject faults with [Fabric.OnPacket], [Device.FailNext] and its siblings,
// [Device.Drain], [Device.SetPort], [Device.Event], [Device.Fatal] and [Device.Remove].
// [Config.Trace] receives all operations of a device.
package connectx
