// SPDX-License-Identifier: Apache-2.0

// Package ucma sends commands to /dev/infiniband/rdma_cm. Every command of the kernel's
// rdma_user_cm.h is one method of [File]. The exceptions are BIND_IP, RESOLVE_IP, QUERY_ROUTE and
// JOIN_IP_MCAST, which BIND, RESOLVE_ADDR, QUERY and JOIN_MCAST have replaced.
//
// It is a thin layer. A method sends the bytes of its command and returns the kernel's response. It
// stores nothing, retries nothing and decides nothing. GetEvent decodes an event and does not act
// on it. Package cm implements the effects of an event on a QP.
//
// All methods may be called concurrently. The kernel runs the commands of one ID one after the
// other. Some commands block in the kernel, as CONNECT does on some iWARP drivers, and delay the
// other commands of that ID.
package ucma
