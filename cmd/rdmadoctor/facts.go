// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"

	"purerdma/uverbs"
)

// facts holds the state of a machine as gathered. The checks read nothing else.
type facts struct {
	container bool   // whether the process runs in a container, as far as it is detectable
	release   string // the kernel's, as printed by uname -r, or "" if unknown
	// sysfs reports whether /sys/class was readable. Without it, the state of the modules is
	// unknown.
	sysfs        bool
	ucmLoaded    bool // rdma_ucm
	uverbsLoaded bool // ib_uverbs
	system       *uverbs.SystemInfo
	cm           node
	devicesKnown bool // whether the kernel returned the list below
	devices      []device
	interfaces   []netInterface
	memlock      *memlock
	unseen       []unseen
}

// node is a character device.
type node struct {
	path   string
	number string // "major:minor" as assigned by the kernel, "" if unknown
	actual string // number of the existing file, "" if there is none
	err    error  // result of opening it for reading and writing
}

// device is one RDMA device.
type device struct {
	info     uverbs.DeviceInfo
	node     node
	provider *versions // versions of the Go provider, nil if there is none
	err      error     // result of opening it with that provider
	ports    []port
}

// versions is the range of a driver's ABI versions that its Go provider supports.
type versions struct{ min, max uint32 }

// port is one port of a device.
type port struct {
	uverbs.PortInfo
	ethernet  bool // RoCE, whose addresses are the interface's
	gidsKnown bool
	gids      []gid
}

// gid is one entry of a port's GID table.
type gid struct {
	addr netip.Addr // IPv4-mapped addresses as plain IPv4
	typ  string     // as in sysfs, such as "RoCE v2"
}

// netInterface is a network interface of this network namespace.
type netInterface struct {
	name     string
	up       bool
	loopback bool
	lower    bool // part of a bond, a bridge or a VLAN, which has the addresses
	addrs    []netip.Addr
}

// memlock holds the limits of locked memory. Registered memory is locked.
type memlock struct {
	soft, hard uint64 // bytes
	exempt     bool   // CAP_IPC_LOCK in the initial user namespace
}

// unlimited is the value of a limit that is not set.
const unlimited = ^uint64(0)

// unseen names a part of the machine that could not be checked.
type unseen struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// finding is one problem.
type finding struct {
	Check   string `json:"check"`  // which check found it
	Object  string `json:"object"` // a device, a node, a module, a limit
	Problem string `json:"problem"`
	Fix     string `json:"fix"` // a command
}
