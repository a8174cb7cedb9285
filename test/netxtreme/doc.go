// SPDX-License-Identifier: Apache-2.0

// Package netxtreme implements a software NetXtreme-E network card of Broadcom, a model of a PCI
// function of the BCM57508 (P5, "Thor") or of the BCM57608 (P7). Linux's bnxt_en drives its
// Ethernet port and bnxt_re its RDMA functions, in a virtual machine of rdmavm -driver bnxt_re or
// bnxt_re-p7. Programs use it through libbnxt_re or another provider.
//
// There is no public manual of the device. The kernel's headers contain the layouts of commands,
// requests, completions and doorbells (include/linux/bnxt/hsi.h, bnxt.h, and roce_hsi.h of
// bnxt_re). The model follows the drivers and libbnxt_re in everything else. It makes these
// assumptions:
//
//   - A CQ may be armed at any time. The driver enables this after each notification, because a
//     card disables it.
//   - A device writes a notification for an armed CQ immediately if there is a completion after
//     the consumer index in the doorbell.
//   - A QP that enters the error state writes a last completion to both of its CQs. libbnxt_re
//     completes the posted requests and receives itself after it.
//   - A full CQ loses completions. It is not a mistake of a driver, because many QPs can share a
//     small CQ. The kernel's driver does not read the event with this error, so the model has none.
//   - An error of a request causes an event of its QP, and so does an error at the peer.
//   - A message of another PSN than the expected one is lost.
//
// # Firmware
//
// The firmware has two channels. HWRM executes one command at a time, which configures the
// function and the queues of Ethernet. RCFW is a queue of commands for RDMA. Its answers are
// entries of an event queue.
//
// # Network
//
// A [Fabric] connects the ports of its devices like a switch. It loses no frames. The messages of
// RDMA do not become frames. A request is executed at the peer's device when its doorbell rings,
// in one piece. It is repeated if the peer's QP cannot receive it yet, or if the answer is lost.
//
// # Strictness
//
// The device reports operations that a driver must not do, even if a card might not detect
// them. Examples are doorbells of missing queues, requests with a wrong length, and commands
// that refer to missing objects.
package netxtreme
