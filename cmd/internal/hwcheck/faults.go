// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"purerdma/uverbs"
	"purerdma/verbs"
)

// faultChecks disturb the device and its other users. They need root.
var faultChecks = []Check{
	{ID: "link-down", Title: "network interface down and up again", Destructive: true, needs: needsLink, do: checkLinkDown},
	{ID: "devlink-reload", Title: "driver reloaded by devlink", Destructive: true, needs: needsDevlink, do: checkReload},
	{ID: "function-reset", Title: "reset of a virtual function under its driver", Destructive: true, Limit: 5 * time.Minute, needs: needsVirtual, do: checkReset},
	{ID: "unbind", Title: "driver unbound from the device and bound again", Destructive: true, needs: needsPCI, do: checkUnbind},
}

// returnTime bounds the time until a disturbed device works again.
const returnTime = time.Minute

// needsKernel excludes the devices of tests, which have no files in /sys.
func needsKernel(t *trial) string {
	if t.target.Host.Kernel != nil {
		return "the kernel is a part of a test"
	}
	return ""
}

func needsRoot(t *trial) string {
	switch {
	case os.Geteuid() != 0:
		return "needs root"
	case t.target.Peer != "":
		return "runs without a peer"
	}
	return ""
}

func needsLink(t *trial) string {
	if reason := needsRoot(t); reason != "" {
		return reason
	}
	if _, err := t.target.flagsFile(); err != nil {
		return err.Error()
	}
	return ""
}

func needsPCI(t *trial) string {
	if reason := needsRoot(t); reason != "" {
		return reason
	}
	if _, _, err := t.driverFiles(); err != nil {
		return err.Error()
	}
	return ""
}

// flagsFile returns the file with the flags of the port's network interface.
func (t *Target) flagsFile() (string, error) {
	info, err := t.info()
	if err != nil {
		return "", err
	}
	ports, err := uverbs.System{}.Ports(info)
	if err != nil {
		return "", err
	}
	for _, p := range ports {
		if p.Number == int(t.Port) && p.Ifindex != 0 {
			iface, err := net.InterfaceByIndex(p.Ifindex)
			if err != nil {
				return "", err
			}
			return filepath.Join("/sys/class/net", iface.Name, "flags"), nil
		}
	}
	return "", errors.New("the port has no network interface in this namespace")
}

// setUp sets or clears IFF_UP in the flags of a network interface.
func setUp(file string, up bool) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	flags, err := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 32)
	if err != nil {
		return err
	}
	flags &^= 1
	if up {
		flags |= 1
	}
	return os.WriteFile(file, fmt.Appendf(nil, "%#x\n", flags), 0)
}

// driverFiles returns the directory of the PCI driver of the device, and the name of the device there.
func (t *trial) driverFiles() (dir, name string, err error) {
	device, err := filepath.EvalSymlinks(filepath.Join("/sys/class/infiniband", t.target.Device, "device"))
	if err != nil {
		return "", "", fmt.Errorf("the device is not a PCI device: %w", err)
	}
	dir, err = filepath.EvalSymlinks(filepath.Join(device, "driver"))
	if err != nil {
		return "", "", fmt.Errorf("the device has no driver: %w", err)
	}
	if filepath.Base(filepath.Dir(filepath.Dir(dir))) != "pci" {
		return "", "", errors.New("the device is not a PCI device")
	}
	return dir, filepath.Base(device), nil
}

func checkLinkDown(t *trial) {
	file, err := t.target.flagsFile()
	t.must("find the network interface", err)
	up := func() error { return setUp(file, true) }
	t.later(up)
	t.disturb("link down", func() error { return setUp(file, false) }, up)
}

func checkUnbind(t *trial) {
	dir, name, err := t.driverFiles()
	t.must("find the driver", err)
	write := func(file string) error { return os.WriteFile(filepath.Join(dir, file), []byte(name), 0) }
	bound := true
	unbind := func() error {
		err := write("unbind")
		bound = err != nil
		return err
	}
	bind := func() error {
		if bound {
			return nil
		}
		if err := write("bind"); err != nil {
			return err
		}
		bound = true
		return t.newInterfaceUp()
	}
	t.later(bind)
	t.disturb("unbind", unbind, bind)
}

func needsDevlink(t *trial) string {
	if reason := needsPCI(t); reason != "" {
		return reason
	}
	if _, err := exec.LookPath("devlink"); err != nil {
		return "devlink is not installed"
	}
	return ""
}

func checkReload(t *trial) {
	_, name, err := t.driverFiles()
	t.must("find the device", err)
	t.disturb("reload", func() error {
		out, err := exec.CommandContext(t.ctx, "devlink", "dev", "reload", "pci/"+name).CombinedOutput()
		if err != nil && bytes.Contains(out, []byte("not supported")) {
			t.skip("the driver does not reload: %s", last(out))
		}
		if err != nil {
			return fmt.Errorf("devlink: %w: %s", err, last(out))
		}
		return nil
	}, t.newInterfaceUp)
}

// newInterfaceUp sets up the network interface that the driver has created again, which has no address.
func (t *trial) newInterfaceUp() error {
	t.target.Addr = netip.Addr{}
	return t.interfaceUp()
}

func needsVirtual(t *trial) string {
	if reason := needsPCI(t); reason != "" {
		return reason
	}
	device := filepath.Join("/sys/class/infiniband", t.target.Device, "device")
	if _, err := os.Stat(filepath.Join(device, "physfn")); err != nil {
		return "the device is no virtual function"
	}
	if _, err := os.Stat(filepath.Join(device, "reset")); err != nil {
		return "the kernel cannot reset the function"
	}
	return ""
}

func checkReset(t *trial) {
	file := filepath.Join("/sys/class/infiniband", t.target.Device, "device", "reset")
	t.disturb("reset", func() error { return os.WriteFile(file, []byte("1"), 0) }, t.newInterfaceUp)
}

// interfaceUp waits for the network interface of the port and sets it up.
func (t *trial) interfaceUp() error {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		file, err := t.target.flagsFile()
		if err == nil {
			err = setUp(file, true)
		}
		if err == nil || time.Since(began) > returnTime {
			return err
		}
	}
}

// disturb checks that requests end during a fault with success or a typed error. The device must work again after it, and the process
// must not hold more than before.
func (t *trial) disturb(what string, fault, revert func() error) {
	t.leavesNothing(func() {
		l := t.link(Config{AckTimeout: 10 * time.Millisecond, RetryCount: 2})
		l.send(l.write(piece{0, 8}, 0))
		for range 10 {
			l.post(signaled(l.write(piece{0, 1024}, 0)))
		}
		t.must(what, fault())
		t.note("during the fault: %s", l.outcome(10))
		if _, err := l.qp.PostSend([]verbs.SendWR{signaled(l.write(piece{0, 8}, 0))}); err != nil {
			t.note("post during the fault: %v", err)
			t.wantRemoval(err)
		} else {
			t.note("request during the fault: %s", l.outcome(1))
		}
		t.must("revert "+what, revert())
		t.comesBack()
		l.shut()
	})
}

// leavesNothing calls f, which disturbs the device and closes its objects. It ends the check if the process then holds more
// than before.
func (t *trial) leavesNothing(f func()) {
	t.useDevice() // fills caches
	before, err := t.usage()
	t.must("read the use of resources", err)
	f()
	after, err := t.settled(before, moreAfterFault)
	t.must("leak after the fault", err)
	t.note("before and after the fault: %d and %d files, %d and %d goroutines, %d and %d QPs", before.files, after.files, before.goroutines, after.goroutines, before.qps, after.qps)
}

// outcome waits for completions and describes them. The removal of the device also ends the wait.
func (l *link) outcome(n int) string {
	statuses := map[string]int{}
	wcs, err := wait(l.t.ctx, l.sendCQ, n)
	if err != nil {
		l.t.wantRemoval(err)
		return err.Error()
	}
	for i := range wcs {
		statuses[wcs[i].Status.String()]++
	}
	return fmt.Sprint(statuses)
}

// wantRemoval ends the check unless the error reports that the device was removed.
func (t *trial) wantRemoval(err error) {
	if _, ok := errors.AsType[*verbs.DeviceRemovedError](err); !ok {
		t.fail("error during the fault: %v, want a DeviceRemovedError", err)
	}
}

// comesBack waits until the port is active and has an address that works, and then uses it.
func (t *trial) comesBack() {
	began := time.Now()
	for !t.target.usable() || !t.target.addressable() {
		if time.Since(began) > returnTime {
			t.fail("the device is not usable %v after the fault", returnTime)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.note("usable %v after the fault", time.Since(began).Round(time.Millisecond))
	t.useDevice()
}

// useDevice sends a message over a connection, and closes it.
func (t *trial) useDevice() {
	l := t.link(Config{})
	sendOne(l, 1, 4096)
	l.shut()
}

// usable reports whether the port is active and has its address.
func (t *Target) usable() bool {
	dev, err := t.Host.Open(t.Device)
	if err != nil {
		return false
	}
	defer dev.Close()
	port, err := dev.QueryPort(t.Port)
	if err != nil || port.State != verbs.PortActive {
		return false
	}
	if iwarp(dev) {
		return true
	}
	_, err = t.gid(dev)
	return err == nil
}

// addressable reports whether the kernel resolves the port's own address. A new network interface has a link-local address at once,
// but cannot use it before the detection of duplicate addresses has ended.
func (t *Target) addressable() bool {
	dev, err := t.Host.Open(t.Device)
	if err != nil {
		return false
	}
	defer dev.Close()
	if iwarp(dev) || dev.LinkLayer(t.Port) != verbs.LinkEthernet {
		return true
	}
	gid, err := t.gid(dev)
	if err != nil {
		return false
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return false
	}
	defer pd.Close()
	ah, err := pd.CreateAH(verbs.AHAttr{Port: t.Port, Global: true, GRH: verbs.GlobalRoute{DGID: gid.GID, SGIDIndex: gid.Index, HopLimit: 1}})
	if err != nil {
		return false
	}
	return ah.Close() == nil
}
