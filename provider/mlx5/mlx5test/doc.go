// SPDX-License-Identifier: Apache-2.0

// Package mlx5test is a kernel with mlx5 devices in memory, for tests of programs
// and of provider/mlx5 itself: no RDMA hardware, no privileges. A test gives it to
// a verbs.Host as its Kernel.
//
// It answers what mlx5_ib answers. Queues, doorbell records and pages of doorbell
// registers are memory, and a test can look at all of it: [Kernel.QPs] and its
// siblings have the addresses that the provider gave. It can play the device, too,
// by CQ.Complete; or it has the package do it: [Kernel.Progress] carries out what
// has been posted, and with Kernel.Live a goroutine does so all the time, so that
// programs run as they would on a device whose wire loses nothing.
//
// Numbers are the same in every run: of QPs 0xabc01 and up, of CQs 0x401, of SRQs
// 0x900, of keys 0xa1b233 and then every 0x10100, of register pages 0x10. They are
// those of the shim under libmlx5 in test/oracle, so that the bytes of both can be
// compared.
//
// What it does not have: packets, and with them timing, loss and retransmission;
// the connection manager, so that tests connect QPs by Modify; DEVX, flows, and
// memory paged on demand.
package mlx5test
