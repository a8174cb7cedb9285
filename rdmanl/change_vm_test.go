// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rdmanl_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/rdmanl"
)

// must fails the test after an error.
func must(t *testing.T, call string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
}

// TestVMChangeDevice renames a device, and changes its moderation.
func TestVMChangeDevice(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	c := dial(t)
	d := device(t, c, hosts[1])
	if err := c.SetName(d.Index, hosts[0].Device); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("SetName(%d, %q) = %v, want EEXIST", d.Index, hosts[0].Device, err)
	}
	const name = "renamed7"
	must(t, "SetName", c.SetName(d.Index, name))
	got, err := c.Device(d.Index)
	if err != nil || got.Name != name {
		t.Errorf("Device(%d) = %+v, %v, want the name %s", d.Index, got, err, name)
	}
	must(t, "SetName", c.SetName(d.Index, d.Name))

	for _, on := range []bool{!d.AdaptiveModeration, d.AdaptiveModeration} {
		must(t, "SetAdaptiveModeration", c.SetAdaptiveModeration(d.Index, on))
		if got := device(t, c, hosts[1]); got.AdaptiveModeration != on {
			t.Errorf("AdaptiveModeration = %v after SetAdaptiveModeration(%v)", got.AdaptiveModeration, on)
		}
	}
	ns, err := os.Open("/proc/self/ns/net")
	must(t, "open the network namespace", err)
	defer ns.Close()
	// Linux 7 moves a shared device to the namespace that it is in.
	if err := c.SetNetNS(d.Index, int(ns.Fd())); err != nil && !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("SetNetNS(%d) of a shared device = %v, want nil or EOPNOTSUPP", d.Index, err)
	}
	if err := c.AddDevice(d.Index, "smi7", rdmanl.DeviceSMI); err == nil {
		t.Errorf("AddDevice(%d) = nil, want an error of a driver without such devices", d.Index)
	}
	const none = 1 << 20
	if _, err := c.Device(none); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Device(%d) = %v, want EINVAL", none, err)
	}
}

// TestVMLinks removes and adds a software device.
func TestVMLinks(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	c := dial(t)
	h := hosts[1]
	d := device(t, c, h)
	if vmtest.Modeled() {
		if err := c.DeleteLink(d.Index); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("DeleteLink(%d) of a card = %v, want EINVAL", d.Index, err)
		}
		return
	}
	must(t, "DeleteLink", c.DeleteLink(d.Index))
	defer h.Plug(t) // waits for the addresses
	if _, err := c.Device(d.Index); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Device(%d) after DeleteLink = %v, want EINVAL", d.Index, err)
	}
	must(t, "AddLink", c.AddLink("added7", vmtest.Driver(), h.Interface))
	h.Device = "added7"
	added := device(t, c, h)
	ports, err := c.Ports(added.Index)
	if err != nil || len(ports) != 1 || ports[0].Interface != h.Interface {
		t.Errorf("Ports(%d) = %+v, %v, want one on %s", added.Index, ports, err, h.Interface)
	}
	must(t, "DeleteLink", c.DeleteLink(added.Index))
	h.Device = hosts[1].Device
	if err := c.AddLink("added7", "nosuch", h.Interface); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("AddLink of an unknown driver = %v, want EINVAL", err)
	}
}

// TestVMSystem changes the settings of the subsystem.
func TestVMSystem(t *testing.T) {
	vmtest.Hosts(t, 1)
	c := dial(t)
	s, err := c.System()
	must(t, "System", err)
	if !s.SharedNetNS || s.PrivilegedQKey {
		t.Errorf("System() = %+v, want shared devices and no use of controlled QKeys", s)
	}
	must(t, "SetSharedNetNS(false)", c.SetSharedNetNS(false))
	if s, err := c.System(); err != nil || s.SharedNetNS {
		t.Errorf("System() after SetSharedNetNS(false) = %+v, %v", s, err)
	}
	must(t, "SetSharedNetNS(true)", c.SetSharedNetNS(true))
	if s, err := c.System(); err != nil || !s.SharedNetNS {
		t.Errorf("System() after SetSharedNetNS(true) = %+v, %v", s, err)
	}
	switch err := c.SetPrivilegedQKey(true); {
	case errors.Is(err, errors.ErrUnsupported) && !s.Monitor: // an older kernel
	case err != nil:
		t.Errorf("SetPrivilegedQKey(true) = %v", err)
	default:
		if s, err := c.System(); err != nil || !s.PrivilegedQKey {
			t.Errorf("System() after SetPrivilegedQKey(true) = %+v, %v", s, err)
		}
		must(t, "SetPrivilegedQKey(false)", c.SetPrivilegedQKey(false))
	}
}

// TestVMChardev compares the character devices with the files.
func TestVMChardev(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	c := dial(t)
	d := device(t, c, hosts[0])
	check := func(call string, node rdmanl.Chardev, err error) {
		t.Helper()
		must(t, call, err)
		info, err := os.Stat("/dev/infiniband/" + node.Name)
		must(t, call, err)
		if st := info.Sys().(*syscall.Stat_t); uint64(st.Rdev) != node.Number {
			t.Errorf("%s = %+v, want the number %#x of the file", call, node, st.Rdev)
		}
	}
	node, err := c.Uverbs(d.Index)
	check("Uverbs", node, err)
	if node.DriverID.String() != vmtest.Driver() {
		t.Errorf("Uverbs(%d).DriverID = %v, want %s", d.Index, node.DriverID, vmtest.Driver())
	}
	node, err = c.RDMACM()
	check("RDMACM", node, err)
}

// TestVMMonitor receives the events of a device that is removed and added.
func TestVMMonitor(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	c := dial(t)
	s, err := c.System()
	must(t, "System", err)
	m, err := rdmanl.Subscribe()
	if !s.Monitor {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Subscribe() on a kernel without events = %v, want errors.ErrUnsupported", err)
		}
		return
	}
	must(t, "Subscribe", err)
	defer m.Close()
	h := hosts[1]
	d := device(t, c, h)
	must(t, "Unplug", h.Unplug())
	h.Plug(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	added := device(t, c, h)
	ports, err := c.Ports(added.Index)
	must(t, "Ports", err)
	want := map[string]func(rdmanl.Event) bool{
		"UNREGISTER": func(e rdmanl.Event) bool { return e.Type == rdmanl.EventUnregister && e.Device == d.Index },
		"REGISTER": func(e rdmanl.Event) bool {
			return e.Type == rdmanl.EventRegister && e.Device == added.Index && e.DeviceName == h.Device
		},
		"NETDEV_ATTACH": func(e rdmanl.Event) bool {
			return e.Type == rdmanl.EventNetDevAttach && e.Device == added.Index && e.Port == 1 && e.Ifindex == ports[0].Ifindex && e.Interface == h.Interface
		},
	}
	for len(want) > 0 {
		e, err := m.Receive(ctx)
		if err != nil {
			t.Fatalf("Receive() = %v, want also the events %v", err, want)
		}
		t.Logf("%v: device %d %s, port %d, interface %d %s", e.Type, e.Device, e.DeviceName, e.Port, e.Ifindex, e.Interface)
		for name, is := range want {
			if is(e) {
				delete(want, name)
			}
		}
	}
}
