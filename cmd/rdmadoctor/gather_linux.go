// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"purerdma/ucma"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// sysClass is the directory in which the kernel lists devices by class.
const sysClass = "/sys/class"

// gather collects the facts of the machine. It opens device nodes and closes them again. It
// changes nothing.
func gather() (*facts, error) {
	f := &facts{container: inContainer()}
	if _, err := os.ReadDir(sysClass); err != nil {
		f.miss("kernel modules, GIDs", err)
	} else {
		f.sysfs = true
		f.ucmLoaded = exists(sysClass + "/misc/rdma_cm")
		f.uverbsLoaded = exists(sysClass + "/infiniband_verbs")
	}
	f.cm = openNode(ucma.Path, sysClass+"/misc/rdma_cm/dev", func() (interface{ Close() error }, error) { return ucma.Open(nil) })
	if s, err := (uverbs.System{}).Info(); err == nil {
		f.system = &s
	} else if f.uverbsLoaded {
		f.miss("how network namespaces share devices", err)
	}
	f.gatherInterfaces()
	infos, err := uverbs.System{}.Devices()
	if err != nil {
		f.miss("RDMA devices", err)
	}
	f.devicesKnown = err == nil
	// Kernels list them in different orders.
	slices.SortFunc(infos, func(a, b uverbs.DeviceInfo) int { return strings.Compare(a.Name, b.Name) })
	for _, info := range infos {
		f.devices = append(f.devices, f.gatherDevice(info))
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		f.release = strings.TrimSpace(string(release))
	} else {
		f.miss("the kernel's release", err)
	}
	if m, err := gatherMemlock(); err == nil {
		f.memlock = m
	} else {
		f.miss("RLIMIT_MEMLOCK", err)
	}
	return f, nil
}

// miss records a part of the machine that could not be read.
func (f *facts) miss(what string, err error) {
	f.unseen = append(f.unseen, unseen{What: what, Why: err.Error()})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// inContainer recognizes containers by the files that their runtimes create, and pods by their
// environment.
func inContainer() bool {
	return exists("/.dockerenv") || exists("/run/.containerenv") || os.Getenv("KUBERNETES_SERVICE_HOST") != "" || os.Getenv("container") != ""
}

// openNode opens a node and compares its number with the one in the kernel's file dev.
func openNode(path, dev string, open func() (interface{ Close() error }, error)) node {
	n := node{path: path}
	if b, err := os.ReadFile(dev); err == nil {
		n.number = strings.TrimSpace(string(b))
	}
	info, err := os.Stat(path)
	if err != nil {
		n.err = err
		return n
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeCharDevice == 0 {
		n.actual, n.err = "none", syscall.ENXIO
		return n
	}
	rdev := uint64(st.Rdev)
	n.actual = fmt.Sprintf("%d:%d", rdev>>8&0xfff|rdev>>32&^0xfff, rdev&0xff|rdev>>12&^0xff)
	if n.number != "" && n.actual != n.number {
		return n // do not open an unknown device
	}
	file, err := open()
	if err != nil {
		n.err = err
		return n
	}
	n.err = file.Close()
	return n
}

func (f *facts) gatherDevice(info uverbs.DeviceInfo) device {
	d := device{info: info}
	if info.Node != "" {
		dev := filepath.Join(sysClass, "infiniband_verbs", filepath.Base(info.Node), "dev")
		d.node = openNode(info.Node, dev, func() (interface{ Close() error }, error) { return uverbs.System{}.Open(info) })
	}
	for _, drv := range verbs.DefaultHost().Drivers {
		if drv.ID() == info.DriverID {
			d.provider = new(versions)
			d.provider.min, d.provider.max = drv.ABIVersions()
		}
	}
	if d.provider != nil && info.Node != "" && d.node.err == nil {
		var dev *verbs.Device
		if dev, d.err = verbs.DefaultHost().Open(info.Name); d.err == nil {
			d.err = dev.Close()
		}
	}
	ports, err := uverbs.System{}.Ports(info)
	if err != nil {
		f.miss("ports of "+info.Name, err)
	}
	for _, p := range ports {
		d.ports = append(d.ports, f.gatherPort(info, p))
	}
	return d
}

// gatherPort reads the GID table from sysfs, which needs no permission.
func (f *facts) gatherPort(info uverbs.DeviceInfo, pi uverbs.PortInfo) port {
	p := port{PortInfo: pi}
	dir := filepath.Join(sysClass, "infiniband", info.Name, "ports", fmt.Sprint(pi.Number))
	if info.NodeType == uverbs.NodeRNIC {
		return p // iWARP does not use GIDs
	}
	link, err := os.ReadFile(filepath.Join(dir, "link_layer"))
	if err != nil {
		f.miss(fmt.Sprintf("link and GIDs of %s port %d", info.Name, pi.Number), err)
		return p
	}
	p.ethernet = strings.TrimSpace(string(link)) == "Ethernet"
	entries, err := os.ReadDir(filepath.Join(dir, "gids"))
	if err != nil {
		f.miss(fmt.Sprintf("GIDs of %s port %d", info.Name, pi.Number), err)
		return p
	}
	p.gidsKnown = true
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, "gids", e.Name()))
		if err != nil {
			continue // an invalid entry
		}
		addr, err := netip.ParseAddr(strings.TrimSpace(string(text)))
		if err != nil || addr.IsUnspecified() {
			continue
		}
		typ, err := os.ReadFile(filepath.Join(dir, "gid_attrs", "types", e.Name()))
		if err != nil {
			continue
		}
		p.gids = append(p.gids, gid{addr: addr.Unmap(), typ: strings.TrimSpace(string(typ))})
	}
	return p
}

func (f *facts) gatherInterfaces() {
	list, err := net.Interfaces()
	if err != nil {
		f.miss("network interfaces", err)
		return
	}
	for _, i := range list {
		n := netInterface{name: i.Name, up: i.Flags&net.FlagUp != 0, loopback: i.Flags&net.FlagLoopback != 0}
		upper, _ := filepath.Glob(filepath.Join(sysClass, "net", i.Name, "upper_*"))
		n.lower = len(upper) > 0
		addrs, err := i.Addrs()
		if err != nil {
			f.miss("addresses of "+i.Name, err)
			n.lower = true // an upper interface may exist
		}
		for _, a := range addrs {
			if ipnet, ok := a.(*net.IPNet); ok {
				if addr, ok := netip.AddrFromSlice(ipnet.IP); ok {
					n.addrs = append(n.addrs, addr.Unmap())
				}
			}
		}
		f.interfaces = append(f.interfaces, n)
	}
}

// gatherMemlock reads the limit, and whether it applies to this process.
func gatherMemlock() (*memlock, error) {
	limits, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return nil, err
	}
	m, err := parseLimits(string(limits))
	if err != nil {
		return nil, err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // if absent, the kernel has no user namespaces
		return nil, err
	}
	m.exempt = parseIPCLock(string(status)) && (len(users) == 0 || initialUsers(string(users)))
	return m, nil
}
