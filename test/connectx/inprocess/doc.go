// SPDX-License-Identifier: Apache-2.0

// Package inprocess is a kernel with software ConnectXs in this process: programs
// that use mlx5 run on it without hardware, privileges or a virtual machine, under
// the race detector and in fuzz tests.
//
//	k := inprocess.New(inprocess.Config{Violation: inprocess.Fail(t)}, "mlx5_0", "mlx5_1")
//	host := &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}
//
// Package mlx5test checks what a program asks of the kernel, as mlx5_ib does; this
// package gives the device the firmware commands that mlx5_ib would, and package
// connectx is the device. It reads and writes what the program has registered, and
// nothing else.
//
// Registers are memory here: a store to one is seen some microseconds later, by a
// goroutine of each device that looks at them while they are mapped. With
// Kernel.LegacyUAR the kernel shares them out, as those before 5.8 did.
//
// Each device has a network interface of this kernel's own, with an IPv4 address, so
// that verbs.Device.GIDFor and package oob connect QPs as they would elsewhere, over any
// net.Conn, such as those of net.Pipe. Package cmtest adds a connection manager.
//
// A test makes things go wrong by Kernel.Fabric and Kernel.Device: messages that are
// lost or late, errors, events, a firmware that fails. Kernel.Remove pulls a card out.
//
// Raw packets are sent; none come, because package verbs has no flows, by which a program
// asks for them. Completions are compressed if a program asks for it, of 64 bytes only.
package inprocess
