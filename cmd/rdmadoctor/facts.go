// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"

	"purerdma/uverbs"
)

// facts are what was found on a machine. The checks look at nothing else.
type facts struct {
	container bool   // the process runs in one, as far as can be told
	release   string // of the kernel, as uname -r has it; "" if unknown
	// sysfs says whether /sys/class could be read; without it nothing is known
	// of modules.
	sysfs        bool
	ucmLoaded    bool // rdma_ucm
	uverbsLoaded bool // ib_uverbs
	system       *uverbs.SystemInfo
	cm           node
	devicesKnown bool // the list below is what the kernel said
	devices      []device
	interfaces   []netInterface
	memlock      *memlock
	unseen       []unseen
}

// node is a character device.
type node struct {
	path   string
	number string // "major:minor" that the kernel gave it, "" if unknown
	actual string // that of the file, "" if there is none
	err    error  // of opening it to read and write
}

// device is one RDMA device.
type device struct {
	info     uverbs.DeviceInfo
	node     node
	provider *versions // of the Go provider, nil if there is none
	err      error     // of opening it with that provider
	ports    []port
}

// versions are the versions of a driver's ABI that its Go provider speaks.
type versions struct{ min, max uint32 }

// port is one port of a device.
type port struct {
	uverbs.PortInfo
	ethernet  bool // RoCE: its addresses are those of the interface
	gidsKnown bool
	gids      []gid
}

// gid is one entry of a port's table.
type gid struct {
	addr netip.Addr // an IPv4 address as itself
	typ  string     // as sysfs has it, "RoCE v2"
}

// netInterface is a network interface of this network namespace.
type netInterface struct {
	name     string
	up       bool
	loopback bool
	lower    bool // of a bond, a bridge or a VLAN, which has the addresses
	addrs    []netip.Addr
}

// memlock is how much memory may be locked, which registered memory is.
type memlock struct {
	soft, hard uint64 // bytes
	exempt     bool   // CAP_IPC_LOCK in the initial user namespace
}

// unlimited is a memlock without end.
const unlimited = ^uint64(0)

// unseen is what could not be looked at.
type unseen struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// finding is one thing that is wrong.
type finding struct {
	Check   string `json:"check"`  // which check found it
	Object  string `json:"object"` // a device, a node, a module, a limit
	Problem string `json:"problem"`
	Fix     string `json:"fix"` // a command
}
