// SPDX-License-Identifier: Apache-2.0

// Package erdma implements a software eRDMA adapter of Alibaba Cloud, a model of a PCI function.
// Linux's erdma drives it in a virtual machine of rdmavm -driver erdma, and programs use it
// through liberdma or another provider.
//
// There is no public manual of the device. The model follows the kernel's driver
// (drivers/infiniband/hw/erdma) and liberdma. It makes these assumptions where both are silent:
//
//   - A device writes an event for an armed completion queue immediately if there is a completion
//     after the consumer index in the doorbell. A doorbell arrives later than the processor
//     continues. A program that arms a queue and finds it empty would otherwise wait forever for
//     a completion that was written in between.
//   - Event queues are armed when they are created.
//   - Doorbells of a QP that is not connected any more have no effect. The command REFLUSH
//     completes requests that are posted later.
//   - A message without a posted receive, and a wrong remote key, terminate the connection, as
//     for iWARP (RFC 5040 and RFC 5041). Both ends get an event. The request that failed at the
//     remote end completes with a general error.
//
// # Connections
//
// The model has ports of iWARP. The driver exchanges the MPA messages over a TCP connection of the
// kernel, through the network card with the MAC address of the function. It then passes the addresses and ports to
// the device. A [Fabric] connects the two QPs whose addresses and ports match, which may be in
// different virtual machines. Their messages do not cross the network card.
//
// A message is executed when its doorbell rings, so that data and completions arrive earlier than
// on any device. A fabric has no loss, delay or congestion. A program in the virtual machine can
// make a device silent or make requests fail (go doc cmd/rdmavm).
//
// # Strictness
//
// The device reports operations that a driver must not do, even if a device might not detect
// them. Examples are work requests with a wrong index or length, and doorbells of missing queues.
// It does not report reserved bits of commands, which the kernel's driver does not clear.
package erdma
