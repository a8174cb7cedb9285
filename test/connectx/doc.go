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
package connectx
