// SPDX-License-Identifier: Apache-2.0

// Package ucma speaks to /dev/infiniband/rdma_cm: every command of the kernel's
// rdma_user_cm.h is one method of [File], but for BIND_IP, RESOLVE_IP, QUERY_ROUTE and
// JOIN_IP_MCAST, which BIND, RESOLVE_ADDR, QUERY and JOIN_MCAST have replaced.
//
// It is a thin floor. A method sends the bytes of its command and returns what
// the kernel answered; nothing is remembered, retried or decided here. GetEvent
// decodes an event and does nothing about it: what an event means for a QP is
// the business of package cm.
//
// All methods may be called concurrently. The kernel runs the commands of one ID
// one after the other, so that a command which blocks in the kernel, as CONNECT
// does on some iWARP drivers, holds up the others of that ID.
package ucma
