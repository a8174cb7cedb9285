// SPDX-License-Identifier: Apache-2.0

// Package rdmanl is the NETLINK_RDMA interface of the kernel, which the program rdma(8) of iproute2
// uses. It lists RDMA devices, their ports and counters, and the resources of all processes, and changes
// the settings of devices and of the RDMA subsystem.
//
// A [Conn] is one socket. Each of its methods is one request, and the requests have no cache between
// them. Most requests name a device by its index and a port by its number, which [Conn.Devices] and
// [Conn.Ports] list. Reading requires no privilege. Changes require CAP_NET_ADMIN in the initial user
// namespace, and so do the keys of memory regions. A [Monitor] is a socket that receives events.
//
// # Namespaces
//
// A socket belongs to the network namespace of the thread that opens it. It has the devices of that
// namespace, or all devices if [System.SharedNetNS] is set. Resources belong to the reader's PID
// namespace. The kernel's own resources are visible only in the initial PID namespace.
//
// # Lists
//
// The kernel returns a long list in several messages, and reads the objects of each message when the
// program receives it. If another process creates or destroys objects at the same time, the list may
// lack an object that always existed, or contain an object twice.
//
// # Older and newer kernels
//
// The doc comment of each request has the first version of Linux with the request, if Linux 5.10
// lacks it. A kernel that lacks a request returns EINVAL or EOPNOTSUPP. A kernel leaves out
// an attribute if it lacks the attribute, if the attribute has no meaning for an object, or if the
// reader may not see it. The fields of these attributes are zero, and [Attributes] contains the attributes that a message had.
// Attributes of newer kernels are skipped.
//
// No answer of the kernel is trusted. A malformed message yields missing objects or attributes, or an
// error, and every list is bounded.
package rdmanl
