// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package vfiouser is the server's side of vfio-user: a PCI function that
// lives in this process appears in a virtual machine. The client is QEMU 10.1
// or newer, whose device is called vfio-user-pci.
//
// The protocol is in QEMU's docs/interop/vfio-user.rst. Of it there is what a
// function takes that moves data by itself: memory of the client that is
// passed as file descriptors and mapped here, accesses to the BARs and the
// configuration space as messages, interrupts as eventfds. Left out are the
// server's reading and writing of memory by messages, migration, and registers
// that the client maps.
//
// The client gives away its memory and must not make the files behind it
// shorter while they are mapped. Apart from that nothing it sends is trusted.
package vfiouser
