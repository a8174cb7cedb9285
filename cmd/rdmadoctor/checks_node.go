// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"purerdma/ucma"
	"purerdma/uverbs"
)

// roceV2 is the type of the GIDs that are IP addresses on the wire.
const roceV2 = "RoCE v2"

func (p *port) hasGID(addr netip.Addr) bool {
	for _, g := range p.gids {
		if g.typ == roceV2 && g.addr == addr.WithZone("") {
			return true
		}
	}
	return false
}

// checkNodes checks that the character devices can be opened. It skips a missing node whose
// module is missing: checkModules reports that.
func checkNodes(f *facts) []finding {
	var found []finding
	if !f.sysfs || f.ucmLoaded {
		found = append(found, f.checkNode(f.cm)...)
	}
	for _, d := range f.devices {
		if d.info.Node != "" {
			found = append(found, f.checkNode(d.node)...)
		}
	}
	return found
}

func (f *facts) checkNode(n node) []finding {
	one := func(problem, fix string) []finding {
		return []finding{{"node", n.path, problem, fix}}
	}
	device := "docker run --device=" + n.path + " ... (Kubernetes: the RDMA device plugin)"
	again := "rm " + n.path + " && "
	mknod := "mknod -m 0666 " + n.path + " c " + strings.ReplaceAll(n.number, ":", " ")
	if n.number == "" {
		mknod = "udevadm trigger --action=add --subsystem-match=infiniband_verbs --subsystem-match=misc"
	}
	if f.container {
		again = "" // a restarted container has new nodes
		mknod = device
	}
	_, otherCM := errors.AsType[*ucma.VersionError](n.err)
	_, otherVerbs := errors.AsType[*uverbs.ABIVersionError](n.err)
	switch err := n.err; {
	case otherCM || otherVerbs:
		return one(err.Error(), "rebuild the program with a newer purerdma (or boot a kernel with a known version)")
	case errors.Is(err, fs.ErrNotExist):
		return one("there is no such device node", mknod)
	case n.actual != "" && n.number != "" && n.actual != n.number:
		return one(fmt.Sprintf("the node belongs to another device: its number is %s, the device's is %s", n.actual, n.number), again+mknod)
	case err == nil:
		return nil
	case errors.Is(err, syscall.EACCES) && n.actual == "":
		return one("no permission to search "+filepath.Dir(n.path), "chmod 0755 "+filepath.Dir(n.path))
	case errors.Is(err, syscall.EACCES):
		return one("no permission to read and write it", "chmod 0666 "+n.path)
	case errors.Is(err, syscall.EPERM):
		return one("the container's device cgroup forbids access", device)
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		return one("there is no driver behind the node", again+mknod)
	}
	return one("it cannot be opened: "+n.err.Error(), "ls -l "+n.path)
}

// enoughLocked is a limit of locked memory that is sufficient for most programs, in bytes.
const enoughLocked = 64 << 20

// lastingMemlock explains how to raise the limit permanently, for a login and for a service.
const lastingMemlock = `; for good: "USER - memlock unlimited" in /etc/security/limits.conf, and LimitMEMLOCK=infinity in a systemd unit`

// checkMemlock checks that programs can register more memory than a test needs.
func checkMemlock(f *facts) []finding {
	m := f.memlock
	if m == nil || m.soft >= enoughLocked || m.exempt && !f.countsAll() {
		return nil
	}
	fix := "prlimit --pid $$ --memlock=unlimited:unlimited (as root)"
	switch {
	case f.container:
		fix = "docker run --ulimit memlock=-1:-1 ..."
	case m.hard == unlimited:
		fix = "ulimit -l unlimited"
	case m.hard >= enoughLocked:
		fix = fmt.Sprintf("ulimit -l %d", m.hard/1024)
	}
	fix += lastingMemlock
	why := fmt.Sprintf("this user can register at most %d KiB of memory; common programs need %d KiB", m.soft/1024, enoughLocked/1024)
	if m.exempt {
		why += " (siw before Linux 6.8 limits root)"
	}
	return []finding{{"memlock", "RLIMIT_MEMLOCK", why, fix}}
}

// countsAll reports whether there is a device whose driver applies the limit even to root. siw
// did so until Linux 6.8, because it counted the memory itself instead of letting the kernel
// count it.
func (f *facts) countsAll() bool {
	var major, minor int
	if n, _ := fmt.Sscanf(f.release, "%d.%d", &major, &minor); n != 2 || major > 6 || major == 6 && minor >= 8 {
		return false
	}
	return slices.ContainsFunc(f.devices, func(d device) bool { return d.info.DriverID.String() == "siw" })
}
