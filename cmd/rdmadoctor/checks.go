// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"

	"purerdma/uverbs"
	"purerdma/verbs"
)

// diagnose returns the problems found, each cause before its consequences.
func diagnose(f *facts) []finding {
	var found []finding
	for _, check := range []func(*facts) []finding{
		checkModules, checkDevices, checkNodes, checkDrivers, checkKernel, checkPorts, checkGIDs, checkMemlock,
	} {
		found = append(found, check(f)...)
	}
	return found
}

func checkModules(f *facts) []finding {
	if !f.sysfs {
		return nil
	}
	var found []finding
	if !f.uverbsLoaded {
		found = append(found, finding{"module", "ib_uverbs", "the kernel module is not loaded: there is no /dev/infiniband/uverbsN", "modprobe ib_uverbs"})
	}
	if !f.ucmLoaded {
		found = append(found, finding{"module", "rdma_ucm", "the kernel module is not loaded: there is no /dev/infiniband/rdma_cm", "modprobe rdma_ucm"})
	}
	return found
}

// checkDevices checks that there is at least one device.
func checkDevices(f *facts) []finding {
	if !f.devicesKnown || len(f.devices) > 0 {
		return nil
	}
	if f.system != nil && !f.system.SharedNetNS {
		return []finding{{"device", "RDMA devices", "no device is in this network namespace, and the kernel shows each device only in its own (netns exclusive)",
			"rdma dev set DEVICE netns NAME (where the device is)"}}
	}
	const problem = "there is no device: no hardware with a loaded driver, and no software device"
	base := "INTERFACE"
	for _, i := range slices.Backward(f.interfaces) {
		if !i.loopback && i.up && len(i.addrs) > 0 {
			base = i.name
		}
	}
	return []finding{{"device", "RDMA devices", problem, "rdma link add rxe0 type rxe netdev " + base}}
}

// checkDrivers checks that this module has a provider for each device.
func checkDrivers(f *facts) []finding {
	var found []finding
	for _, d := range f.devices {
		if d.info.Node == "" {
			continue // no driver is known
		}
		e := verbs.NoProviderError{Device: d.info.Name, Driver: d.info.DriverID, ABIVersion: d.info.ABIVersion}
		fix := "use the device with rdma-core, or one of these drivers: rdma link add rxe0 type rxe netdev INTERFACE"
		if p := d.provider; p != nil {
			if e.ABIVersion >= p.min && e.ABIVersion <= p.max {
				continue
			}
			e.Min, e.Max = p.min, p.max
			fix = "rebuild the program with a newer purerdma (or boot a kernel with a known version)"
		}
		found = append(found, finding{"driver", d.info.Name, e.Error(), fix})
	}
	return found
}

// checkKernel checks that the kernel has the commands that every program needs. Distribution
// kernels with a lower version number may have them.
func checkKernel(f *facts) []finding {
	for _, d := range f.devices {
		if e, ok := errors.AsType[*verbs.OldKernelError](d.err); ok {
			return []finding{{"kernel", "Linux " + f.release, e.Error(), "uname -r (boot Linux " + verbs.MinKernel + " or newer)"}}
		}
	}
	return nil
}

// checkPorts checks that ports can send and receive packets.
func checkPorts(f *facts) []finding {
	var found []finding
	for _, d := range f.devices {
		for _, p := range d.ports {
			add := func(problem, fix string) {
				found = append(found, finding{"port", fmt.Sprintf("%s port %d", d.info.Name, p.Number), problem, fix})
			}
			onInterface := p.ethernet || d.info.NodeType == uverbs.NodeRNIC
			i := f.netInterface(p.Interface)
			switch state := verbs.PortState(p.State); {
			case onInterface && p.Ifindex == 0:
				add("its network interface is not in this network namespace",
					"ip link set INTERFACE netns NAME (where the interface is)")
			case onInterface && i != nil && !i.up: // siw of Linux 6.1 does not report this itself
				add("it is down, because "+i.name+" is", "ip link set "+i.name+" up")
			case state == verbs.PortActive:
				if i != nil && !i.lower && len(i.addrs) == 0 {
					add("its interface "+i.name+" has no IP address", "ip addr add ADDRESS/BITS dev "+i.name)
				}
			case onInterface:
				add("it is down: "+p.Interface+" has no carrier", "ip link show "+p.Interface+" (look at the cable or the peer)")
			case state == verbs.PortInit || state == verbs.PortArmed:
				add("it is waiting for a subnet manager", "systemctl start opensm (on one host of the subnet)")
			default:
				add("it is down: no link", "ibstat "+d.info.Name+" (look at the cable or the switch)")
			}
		}
	}
	return found
}

// checkGIDs checks that each address of a RoCE port's interface has a RoCE v2 GID, by which
// peers reach it. Link-local addresses are skipped, because connections hardly ever use them.
func checkGIDs(f *facts) []finding {
	var found []finding
	for _, d := range f.devices {
		for _, p := range d.ports {
			i := f.netInterface(p.Interface)
			if !p.ethernet || !p.gidsKnown || i == nil || !i.up {
				continue
			}
			for _, addr := range i.addrs {
				if addr.IsLinkLocalUnicast() || p.hasGID(addr) {
					continue
				}
				found = append(found, finding{"gid", fmt.Sprintf("%s port %d", d.info.Name, p.Number),
					fmt.Sprintf("no GID of RoCE v2 for %v, an address of %s", addr, i.name),
					fmt.Sprintf("ip addr del %v dev %s, then add it again with ip addr add (the kernel then creates the GID)", addr, i.name)})
			}
		}
	}
	return found
}

func (f *facts) netInterface(name string) *netInterface {
	for n := range f.interfaces {
		if name != "" && f.interfaces[n].name == name {
			return &f.interfaces[n]
		}
	}
	return nil
}
