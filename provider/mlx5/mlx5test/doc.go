// SPDX-License-Identifier: Apache-2.0

// Package mlx5test provides a kernel with mlx5 devices in memory, for tests of programs and of
// provider/mlx5 itself. It needs neither RDMA hardware nor privileges. A test sets it as the
// Kernel of a verbs.Host.
//
// Its commands return the results of mlx5_ib, but it has no device. Queues, doorbell records
// and pages of doorbell registers are memory, and posted requests are not executed. A test can
// read all of this memory. [Kernel.QPs] and similar methods return the addresses that the
// provider passed to the kernel. The test can act as the device, with [CQ.Complete] and
// [Kernel.Event]. With [Kernel.Hardware] a device executes the requests. Package
// test/connectx/inprocess provides a software ConnectX for this, on which programs run.
//
// Numbers are identical in every run, unless a device assigns them. QPs have the numbers
// 0xabc01 and up, CQs 0x401 and up, and SRQs 0x900 and up. Keys begin with 0xa1b233, in steps
// of 0x10100. Register pages begin with 0x10. The shim under libmlx5 in test/oracle assigns the
// same numbers, so that the bytes of both can be compared.
//
// The package has no connection manager, so that tests connect QPs with Modify. It also has no
// DEVX, no flows, and no memory that is paged on demand.
package mlx5test
