// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"purerdma/verbs"
)

// seen returns one line for each part that was checked.
func (f *facts) seen() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if f.release != "" {
		add("Linux %s", f.release)
	}
	if f.container {
		add("the process runs in a container")
	}
	if f.sysfs {
		add("module ib_uverbs: %s", choose(f.uverbsLoaded, "loaded", "not loaded"))
		add("module rdma_ucm: %s", choose(f.ucmLoaded, "loaded", "not loaded"))
	}
	if f.system != nil {
		add("devices are visible in %s", choose(f.system.SharedNetNS, "all network namespaces", "their own network namespace only"))
	}
	add("%v", f.cm)
	if f.devicesKnown && len(f.devices) == 0 {
		add("no RDMA device")
	}
	for _, d := range f.devices {
		driver := d.info.DriverID.String()
		add("%s: driver %s, ABI version %d, %s", d.info.Name, driver, d.info.ABIVersion, choose(d.provider != nil, "with a Go provider", "without a Go provider"))
		if d.info.Node != "" {
			add("%v", d.node)
		}
		for _, p := range d.ports {
			add("%s port %d: %v%s", d.info.Name, p.Number, verbs.PortState(p.State), f.behind(p))
		}
	}
	if m := f.memlock; m != nil {
		add("RLIMIT_MEMLOCK: %s, at most %s%s", size(m.soft), size(m.hard), choose(m.exempt, " (not enforced: CAP_IPC_LOCK)", ""))
	}
	return lines
}

// String returns the path, and whether it can be opened.
func (n node) String() string {
	if n.err != nil {
		return n.path + ": cannot be opened"
	}
	return n.path + ": can be opened"
}

// behind describes the network interface of a port with its addresses.
func (f *facts) behind(p port) string {
	i := f.netInterface(p.Interface)
	if i == nil {
		return ""
	}
	var addrs []string
	for _, a := range i.addrs {
		addrs = append(addrs, a.String())
	}
	s := fmt.Sprintf(", interface %s (%s)", i.name, choose(len(addrs) > 0, strings.Join(addrs, ", "), "without addresses"))
	if p.gidsKnown {
		s += fmt.Sprintf(", %d GIDs", len(p.gids))
	}
	return s
}

func choose(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// size formats a limit.
func size(n uint64) string {
	if n == unlimited {
		return "unlimited"
	}
	return fmt.Sprintf("%d KiB", n/1024)
}
