// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// well returns the facts of a machine without problems. It has one RoCE device and one iWARP
// device.
func well() *facts {
	v4, v6, local := netip.MustParseAddr("10.8.0.1"), netip.MustParseAddr("fd00:8::1"), netip.MustParseAddr("fe80::1")
	dev := func(n int, name string, id abi.DriverID, typ uverbs.NodeType, iface string) device {
		path := fmt.Sprintf("/dev/infiniband/uverbs%d", n)
		return device{
			info:     uverbs.DeviceInfo{Name: name, Node: path, DriverID: id, ABIVersion: 2, NodeType: typ},
			node:     node{path: path, number: fmt.Sprintf("231:%d", 192+n), actual: fmt.Sprintf("231:%d", 192+n)},
			provider: &versions{1, 2},
			ports:    []port{{PortInfo: uverbs.PortInfo{Number: 1, State: 4, Ifindex: n + 1, Interface: iface}}},
		}
	}
	rxe, siw := dev(0, "rxe0", abi.RDMA_DRIVER_RXE, uverbs.NodeCA, "eth0"), dev(1, "siw0", abi.RDMA_DRIVER_SIW, uverbs.NodeRNIC, "eth1")
	rxe.ports[0].ethernet, rxe.ports[0].gidsKnown = true, true
	rxe.ports[0].gids = []gid{{v4, "IB/RoCE v1"}, {v4, roceV2}, {v6, roceV2}}
	return &facts{
		sysfs: true, ucmLoaded: true, uverbsLoaded: true, devicesKnown: true,
		system:  &uverbs.SystemInfo{SharedNetNS: true},
		cm:      node{path: ucma.Path, number: "10:119", actual: "10:119"},
		devices: []device{rxe, siw},
		interfaces: []netInterface{{name: "lo", up: true, loopback: true}, {name: "dummy0"},
			{name: "eth0", up: true, addrs: []netip.Addr{v4, v6, local}}, {name: "eth1", up: true, addrs: []netip.Addr{local}}},
		memlock: &memlock{soft: 64 << 20, hard: unlimited},
	}
}

func TestDiagnose(t *testing.T) {
	for name, tc := range map[string]struct {
		breakIt func(*facts)
		want    []string // a part of each finding's line
	}{
		"well": {func(*facts) {}, nil},
		"modules": {func(f *facts) {
			f.ucmLoaded, f.uverbsLoaded, f.cm.err = false, false, fs.ErrNotExist
			f.cm.actual, f.devices = "", nil
		}, []string{"modprobe ib_uverbs", "modprobe rdma_ucm", "RDMA devices: there is no device"}},
		"only ib_uverbs missing": {func(f *facts) {
			f.uverbsLoaded = false
			for i := range f.devices {
				f.devices[i].info.Node, f.devices[i].provider = "", nil
			}
		}, []string{"modprobe ib_uverbs"}},
		"no sysfs":            {func(f *facts) { f.sysfs, f.ucmLoaded, f.uverbsLoaded = false, false, false }, nil},
		"no sysfs, no node":   {func(f *facts) { f.sysfs, f.cm = false, node{path: ucma.Path, err: fs.ErrNotExist} }, []string{"udevadm trigger"}},
		"no device":           {func(f *facts) { f.devices = nil }, []string{"rdma link add rxe0 type rxe netdev eth0"}},
		"nothing at all":      {func(f *facts) { f.devices, f.interfaces = nil, nil }, []string{"type rxe netdev INTERFACE"}},
		"none in namespace":   {func(f *facts) { f.devices, f.system.SharedNetNS = nil, false }, []string{"rdma dev set DEVICE netns"}},
		"devices unknown":     {func(f *facts) { f.devices, f.devicesKnown = nil, false }, nil},
		"system unknown":      {func(f *facts) { f.system = nil }, nil},
		"no node":             {func(f *facts) { f.cm.actual, f.cm.err = "", fs.ErrNotExist }, []string{"mknod -m 0666 /dev/infiniband/rdma_cm c 10 119"}},
		"no node, container":  {func(f *facts) { f.container = true; f.cm.err = fs.ErrNotExist }, []string{"docker run --device=/dev/infiniband/rdma_cm"}},
		"no permission":       {func(f *facts) { f.devices[1].node.err = syscall.EACCES }, []string{"chmod 0666 /dev/infiniband/uverbs1"}},
		"no search":           {func(f *facts) { f.cm.actual, f.cm.err = "", syscall.EACCES }, []string{"chmod 0755 /dev/infiniband"}},
		"device cgroup":       {func(f *facts) { f.devices[0].node.err = &fs.PathError{Err: syscall.EPERM} }, []string{"docker run --device=/dev/infiniband/uverbs0"}},
		"stale node":          {func(f *facts) { f.devices[0].node.actual = "231:200" }, []string{"rm /dev/infiniband/uverbs0 && mknod -m 0666 /dev/infiniband/uverbs0 c 231 192"}},
		"nothing behind":      {func(f *facts) { f.cm.err = syscall.ENODEV }, []string{"there is no driver behind"}},
		"another error":       {func(f *facts) { f.cm.err = syscall.EIO }, []string{"cannot be opened: input/output error"}},
		"version of rdma_cm":  {func(f *facts) { f.cm.err = &ucma.VersionError{Kernel: 5, Library: 4} }, []string{"ABI version 5, this library supports 4"}},
		"version of verbs":    {func(f *facts) { f.devices[0].node.err = &uverbs.ABIVersionError{Kernel: 7, Known: 6} }, []string{"ABI version 7, this program supports 6"}},
		"no provider":         {func(f *facts) { f.devices[0].provider, f.devices[0].info.DriverID = nil, abi.RDMA_DRIVER_EFA }, []string{"no Go provider for driver"}},
		"version of a driver": {func(f *facts) { f.devices[0].info.ABIVersion = 3 }, []string{"ABI version 3, the Go provider supports 1 to 2"}},
		"old kernel": {func(f *facts) {
			f.release = "5.4.0-216-generic"
			for i := range f.devices {
				f.devices[i].err = &verbs.OldKernelError{Device: f.devices[i].info.Name, Err: errors.New("GET_CONTEXT is not supported")}
			}
		}, []string{"Linux 5.4.0-216-generic: RDMA device rxe0: the kernel is too old, Linux 5.10 or newer is needed: GET_CONTEXT is not supported"}},
		"another error of opening": {func(f *facts) { f.devices[0].err = syscall.ENOMEM }, nil},
		"interface down": {func(f *facts) { f.interfaces[2].up, f.devices[0].ports[0].State = false, 1 },
			[]string{"rxe0 port 1: it is down, because eth0 is; fix: ip link set eth0 up"}},
		"interface down, port active": {func(f *facts) { f.interfaces[3].up = false },
			[]string{"siw0 port 1: it is down, because eth1 is; fix: ip link set eth1 up"}},
		"no carrier":       {func(f *facts) { f.devices[1].ports[0].State = 1 }, []string{"eth1 has no carrier"}},
		"other namespace":  {func(f *facts) { f.devices[1].ports[0].Ifindex, f.devices[1].ports[0].Interface = 0, "" }, []string{"siw0 port 1: its network interface is not in this"}},
		"no address":       {func(f *facts) { f.interfaces[3].addrs = nil }, []string{"ip addr add ADDRESS/BITS dev eth1"}},
		"no address below": {func(f *facts) { f.interfaces[3].addrs, f.interfaces[3].lower = nil, true }, nil},
		"no subnet manager": {func(f *facts) {
			p := &f.devices[0].ports[0]
			p.ethernet, p.State, p.Ifindex, p.Interface = false, 2, 0, ""
		}, []string{"systemctl start opensm"}},
		"no InfiniBand link": {func(f *facts) {
			p := &f.devices[0].ports[0]
			p.ethernet, p.State, p.Ifindex, p.Interface = false, 1, 0, ""
		}, []string{"no link"}},
		"no GID":       {func(f *facts) { f.devices[0].ports[0].gids = f.devices[0].ports[0].gids[:2] }, []string{"no GID of RoCE v2 for fd00:8::1"}},
		"RoCE v1 only": {func(f *facts) { f.devices[0].ports[0].gids[1].typ = "IB/RoCE v1" }, []string{"no GID of RoCE v2 for 10.8.0.1"}},
		"GIDs unknown": {func(f *facts) { f.devices[0].ports[0].gids, f.devices[0].ports[0].gidsKnown = nil, false }, nil},
		"memlock":      {func(f *facts) { f.memlock.soft = 8 << 20 }, []string{"at most 8192 KiB of memory; common programs need 65536 KiB; fix: ulimit -l unlimited"}},
		"memlock, a higher bound": {func(f *facts) { f.memlock.soft, f.memlock.hard = 1<<16, 1<<30 },
			[]string{"ulimit -l 1048576"}},
		"memlock for good":   {func(f *facts) { f.memlock.soft, f.memlock.hard = 1<<16, 1<<16 }, []string{"prlimit --pid $$ --memlock=unlimited:unlimited (as root)" + lastingMemlock}},
		"memlock, container": {func(f *facts) { f.memlock.soft, f.container = 1<<16, true }, []string{"docker run --ulimit memlock=-1:-1"}},
		"memlock, exempt":    {func(f *facts) { f.memlock.soft, f.memlock.exempt = 1<<16, true }, nil},
		"memlock, exempt, but for siw": {func(f *facts) { f.memlock.soft, f.memlock.exempt, f.release = 1<<16, true, "6.1.0-56-amd64" },
			[]string{"at most 64 KiB of memory; common programs need 65536 KiB (siw before Linux 6.8 limits root); fix: ulimit -l unlimited"}},
		"memlock, exempt, newer siw": {func(f *facts) { f.memlock.soft, f.memlock.exempt, f.release = 1<<16, true, "6.12.117" }, nil},
		"memlock, exempt, no siw": {func(f *facts) {
			f.memlock.soft, f.memlock.exempt, f.release = 1<<16, true, "6.1.0"
			f.devices = f.devices[:1]
		}, nil},
		"memlock unknown": {func(f *facts) { f.memlock = nil }, nil},
	} {
		f := well()
		tc.breakIt(f)
		var out strings.Builder
		if err := printText(&out, &out, diagnose(f), nil); err != nil {
			t.Fatalf("printText: %v", err)
		}
		lines := strings.SplitAfter(out.String(), "\n")
		lines = lines[:len(lines)-1]
		if tc.want == nil {
			tc.want = []string{"no problem found\n"}
		}
		match := len(lines) == len(tc.want)
		for i := 0; match && i < len(lines); i++ {
			match = strings.Contains(lines[i], tc.want[i])
		}
		if !match {
			t.Errorf("%s: printed lines %q, want lines that contain %q", name, lines, tc.want)
		}
	}
}

// TestWell checks the output for a machine without problems: one line of text, and empty lists
// in JSON.
func TestWell(t *testing.T) {
	for want, missed := range map[string][]unseen{
		"no problem found\n": nil,
		"no problem found in the parts that could be checked\n": {{What: "RLIMIT_MEMLOCK", Why: "no /proc"}},
	} {
		var out, errs, asJSON strings.Builder
		if err := printText(&out, &errs, nil, missed); err != nil {
			t.Errorf("printText(%v) = %v, want nil", missed, err)
		}
		if out.String() != want {
			t.Errorf("printText(%v) wrote %q to stdout, want %q", missed, out.String(), want)
		}
		if n := strings.Count(errs.String(), "not seen: "); n != len(missed) {
			t.Errorf("printText(%v) wrote %q to stderr, want %d lines", missed, errs.String(), len(missed))
		}
		if err := printJSON(&asJSON, &errs, nil, missed); err != nil || !strings.HasPrefix(asJSON.String(), `{"findings":[],"unseen":[`) || strings.Contains(asJSON.String(), "wrong") {
			t.Errorf("printJSON(%v) = %v, wrote %s, want empty findings", missed, err, asJSON.String())
		}
	}
}

// TestSeen checks the lines of -v for a complete machine and for a bare one.
func TestSeen(t *testing.T) {
	f := well()
	f.release, f.container = "6.1.0", true
	f.devices[1].node.err = fs.ErrPermission
	want := `Linux 6.1.0
the process runs in a container
module ib_uverbs: loaded
module rdma_ucm: loaded
devices are visible in all network namespaces
/dev/infiniband/rdma_cm: can be opened
rxe0: driver rxe, ABI version 2, with a Go provider
/dev/infiniband/uverbs0: can be opened
rxe0 port 1: ACTIVE, interface eth0 (10.8.0.1, fd00:8::1, fe80::1), 3 GIDs
siw0: driver siw, ABI version 2, with a Go provider
/dev/infiniband/uverbs1: cannot be opened
siw0 port 1: ACTIVE, interface eth1 (fe80::1)
RLIMIT_MEMLOCK: 65536 KiB, at most unlimited`
	if got := strings.Join(f.seen(), "\n"); got != want {
		t.Errorf("seen() = \n%s\nwant:\n%s", got, want)
	}
	none := &facts{devicesKnown: true, cm: node{path: "P", err: fs.ErrNotExist}}
	if got, want := strings.Join(none.seen(), "\n"), "P: cannot be opened\nno RDMA device"; got != want {
		t.Errorf("seen() on a bare machine = %q, want %q", got, want)
	}
}

func TestLimits(t *testing.T) {
	const head = "Limit                     Soft Limit           Hard Limit           Units     \nMax cpu time              unlimited            unlimited            seconds   \n"
	for text, want := range map[string]memlock{
		head + "Max locked memory         8388608              unlimited            bytes     \n": {soft: 8 << 20, hard: unlimited},
		"Max locked memory 65536 65536 bytes":                                                     {soft: 1 << 16, hard: 1 << 16},
	} {
		if got, err := parseLimits(text); err != nil || *got != want {
			t.Errorf("parseLimits(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", head, "Max locked memory 1", "Max locked memory a b bytes"} {
		if _, err := parseLimits(text); err == nil {
			t.Errorf("parseLimits(%q): no error", text)
		}
	}
	if parseIPCLock("CapEff:\t0000000000000000\n") || !parseIPCLock("CapPrm:\t0\nCapEff:\t000001ffffffffff\n") || parseIPCLock("CapEff:\tx") || parseIPCLock("CapEff:\t000001ffffffbfff\n") {
		t.Error("parseIPCLock returned a wrong answer")
	}
	if !initialUsers("         0          0 4294967295\n") || initialUsers("         0       1000          1\n") {
		t.Error("initialUsers returned a wrong answer")
	}
}

func TestUsage(t *testing.T) {
	var help strings.Builder
	if status := run(t.Context(), []string{"-h"}, &help, &help); status != statusWell || !strings.Contains(help.String(), "-json") {
		t.Errorf("run(-h) = status %d, output %q, want %d and the flags", status, &help, statusWell)
	}
	for _, args := range [][]string{{"-x"}, {"there"}, {"-v", "--json"}} {
		var out, errs strings.Builder
		if status := run(t.Context(), args, &out, &errs); status != statusUsage || errs.Len() == 0 {
			t.Errorf("run(%q) = status %d, stderr %q, want %d and an error", args, status, errs.String(), statusUsage)
		}
	}
}
