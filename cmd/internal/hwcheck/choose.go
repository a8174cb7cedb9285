// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"net"
	"net/netip"

	"purerdma/uverbs"
	"purerdma/verbs"
)

// Complete chooses the device and the address that are not set. A device whose port is active is preferred.
func (t *Target) Complete() error {
	infos, err := t.Host.Devices()
	if err != nil {
		return err
	}
	if len(infos) == 0 {
		return fmt.Errorf("%w (run rdmadoctor to find out why)", verbs.ErrNoDevice)
	}
	if t.Device == "" {
		t.Device = infos[0].Name
		for _, info := range infos {
			if t.active(info) {
				t.Device = info.Name
				break
			}
		}
	}
	if t.Addr.IsValid() {
		return nil
	}
	info, err := t.info()
	if err == nil {
		t.Addr = t.address(info)
	}
	return err
}

// active reports whether the port of a device can be used.
func (t *Target) active(info verbs.DeviceInfo) bool {
	dev, err := t.Host.Open(info.Name)
	if err != nil {
		return false
	}
	defer dev.Close()
	port, err := dev.QueryPort(t.Port)
	return err == nil && port.State == verbs.PortActive
}

// address returns an address of the port's network interface, or the zero Addr. IPv4 is preferred.
func (t *Target) address(info verbs.DeviceInfo) netip.Addr {
	ports, err := uverbs.System{}.Ports(info)
	if err != nil {
		return netip.Addr{}
	}
	var found netip.Addr
	for _, p := range ports {
		if p.Number != int(t.Port) || p.Ifindex == 0 {
			continue
		}
		iface, err := net.InterfaceByIndex(p.Ifindex)
		if err != nil {
			continue
		}
		addrs, err := iface.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil || prefix.Addr().IsLinkLocalUnicast() {
				continue
			}
			if addr := prefix.Addr().Unmap(); !found.IsValid() || addr.Is4() && !found.Is4() {
				found = addr
			}
		}
	}
	return found
}
