// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package vfiouser implements the server's side of vfio-user. A PCI function in this process
// appears in a virtual machine. The client is QEMU 10.1 or newer, whose device is called
// vfio-user-pci.
//
// QEMU's docs/interop/vfio-user.rst defines the protocol. The package implements the part for a
// function that transfers data itself. The client's memory is passed as file descriptors and
// mapped into this process. Accesses to the BARs and the configuration space are messages.
// Interrupts are eventfds. The package does not implement the server's memory access through
// messages, migration, or registers that the client maps.
//
// The client shares its memory and must not truncate the files behind it while they are mapped.
// The server trusts nothing else that the client sends.
package vfiouser
