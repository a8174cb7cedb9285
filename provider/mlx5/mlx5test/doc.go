// SPDX-License-Identifier: Apache-2.0

// Package mlx5test is a kernel with mlx5 devices in memory, for tests of programs
// and of provider/mlx5 itself: no RDMA hardware, no privileges. A test gives it to
// a verbs.Host as its Kernel.
//
// It answers what mlx5_ib answers, and has no device: queues, doorbell records and
// pages of doorbell registers are memory, and nobody carries out what is posted. A
// test can look at all of it: [Kernel.QPs] and its siblings have the addresses that
// the provider gave. It can play the device, by [CQ.Complete] and [Kernel.Event]. With
// [Kernel.Hardware] a device does: package test/connectx/inprocess puts a software
// ConnectX there, on which programs run.
//
// Numbers are the same in every run, unless a device gives them: of QPs 0xabc01 and
// up, of CQs 0x401, of SRQs 0x900, of keys 0xa1b233 and then every 0x10100, of register
// pages 0x10. They are those of the shim under libmlx5 in test/oracle, so that the
// bytes of both can be compared.
//
// What it does not have: the connection manager, so that tests connect QPs by Modify;
// DEVX, flows, and memory paged on demand.
package mlx5test
