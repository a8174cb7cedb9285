// SPDX-License-Identifier: Apache-2.0

// Package connectx is a software ConnectX: a device model of an HCA that answers
// firmware commands, reads work requests and writes completions as the PRM has
// them, so that drivers run on it as they would on the card.
//
// A [Device] is driven in three ways, and knows nothing of who does so:
//
//   - [Device.Exec] carries out one firmware command;
//   - [Device.Ring] takes a store to a doorbell register;
//   - interrupts leave by [Config.Interrupt].
//
// A [Function] is a device on a PCI bus, with the registers by which a kernel's driver
// starts it and gives it commands. Package vfiouser puts it into a virtual machine, as
// rdmavm -driver mlx5 does: there Linux's mlx5_core, mlx5e and mlx5_ib take it for a card.
//
// All else goes through the host's memory, which is an interface, [Memory]: the
// memory of a virtual machine, or of this process.
//
// Devices on one [Fabric] reach each other. All devices of a fabric have one lock,
// which is the fabric's: a message touches two devices, and its effects on both are
// seen at once. Interrupts are given after it has been released, so that a handler
// may use the device.
//
// Opcodes, statuses and the layouts of structs are in package prm, because who
// plays the driver needs them, too.
//
// # What it does
//
// Transports RC, UC, UD, XRC and DC with SEND, WRITE, READ and 64-bit atomics, memory
// windows and UMR, shared receive queues, multicast, completions of 64 and 128 bytes
// with data in them, and all checks that a card makes: of keys, domains, rights and
// bounds, of states, of room in queues. Messages have the sequence numbers of their
// packets, and are acknowledged; what is lost is sent again, as often and after as
// long as the QP says, and is not done twice.
//
// A message crosses the fabric whole. What can be lost or late is a message or the
// answer to it, not one packet of many; so a large message is never half there. A
// fabric has no congestion, and its own order: a message is done when its doorbell is
// rung, so that data and completions come sooner than on any card.
//
// As every card does, it offers drivers to put short data into completions, to negotiate
// the options of enhanced connection establishment (ECE), of which it has no use itself,
// a key for memory that keeps nothing, and register pages of 4 KiB.
//
// A completion queue may be made to compress; but the device does not offer it to a
// driver that asks what it can do. It has no InfiniBand link layer, no signatures and no
// DEVX. Pages of memory may be missing, which is how Linux registers dma-bufs, but the device
// has no page faults: a request that meets a missing page fails.
//
// # Strictness, faults, traces
//
// With [Config.Violation] a device is strict: it tells of what a driver must not do
// although a card might not notice, such as bits that are reserved, work requests that
// say a wrong length, doorbells that come before their request. The requests that
// libmlx5 was recorded with (test/oracle) hold it to what is true.
//
// A driver's beliefs about cards are the device's, too, where nobody could look at a card:
// [Device.SetQuirks] has the device do otherwise.
//
// A test makes things go wrong by [Fabric.OnPacket], [Device.FailNext] and its
// siblings, [Device.Drain], [Device.SetPort], [Device.Event], [Device.Fatal] and
// [Device.Remove], and sees by [Config.Trace] all that a device sees and does.
package connectx
