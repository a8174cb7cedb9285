// SPDX-License-Identifier: Apache-2.0

// Package inprocess provides a kernel with software ConnectXs in this process. Programs that
// use mlx5 run on it without hardware, privileges or a virtual machine, under the race detector
// and in fuzz tests.
//
//	k := inprocess.New(inprocess.Config{Violation: inprocess.Fail(t)}, "mlx5_0", "mlx5_1")
//	host := &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}
//
// Package mlx5test validates a program's commands like mlx5_ib. This package issues the
// firmware commands that mlx5_ib would issue, and package connectx implements the device. The
// device only accesses the memory that the program has registered.
//
// Registers are memory here. One goroutine polls the mapped registers of all devices, so that a
// store takes effect some microseconds later. With Kernel.LegacyUAR the kernel assigns the
// registers like kernels before 5.8.
//
// Each device has a network interface with an IPv4 address in this kernel. verbs.Device.GIDFor
// and package oob therefore connect QPs as elsewhere, over any net.Conn, such as net.Pipe.
// Package cmtest adds a connection manager.
//
// Tests inject faults through Kernel.Fabric and Kernel.Device, such as lost or late messages,
// errors, events, and a firmware failure. Kernel.Remove removes a card.
//
// Raw packets can be sent, but not received, because package verbs has no flows, with which a
// program requests them. Completions are compressed if a program requests it, with 64 bytes
// only.
package inprocess
