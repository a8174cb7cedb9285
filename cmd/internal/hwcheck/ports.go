// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"time"

	"purerdma/internal/hwreport"
	"purerdma/verbs"
)

// portChecks use two ports of this host, of one device or of two with the same driver.
var portChecks = []Check{
	{ID: "other-port", Local: true, Title: "messages to another active port of this host", needs: needsOtherPort, do: checkOtherPort},
}

// otherPort returns another active port, or nil. A port of the same device is preferred.
func (t *trial) otherPort() (*Target, error) {
	for port := range uint8(t.attr.Ports) {
		other := &Target{Host: t.target.Host, Device: t.target.Device, Port: port + 1}
		if other.Port != t.target.Port && t.dev.LinkLayer(other.Port) == t.dev.LinkLayer(t.target.Port) && other.usablePort() {
			return other, other.Complete()
		}
	}
	infos, err := t.target.Host.Devices()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.Name == t.target.Device || info.DriverID != t.dev.DriverID() {
			continue
		}
		other := &Target{Host: t.target.Host, Device: info.Name, Port: 1}
		if err := other.Complete(); err == nil && other.usablePort() {
			return other, nil
		}
	}
	return nil, nil
}

// usablePort is like usable. It also requires an address on iWARP, where the connection manager connects.
func (t *Target) usablePort() bool {
	dev, err := t.Host.Open(t.Device)
	if err != nil {
		return false
	}
	defer dev.Close()
	return t.usable() && (!iwarp(dev) || t.Addr.IsValid())
}

func needsOtherPort(t *trial) string {
	other, err := t.otherPort()
	t.must("look for another port", err)
	if other == nil {
		return "no other port of the driver is active"
	}
	return ""
}

func checkOtherPort(t *trial) {
	other, err := t.otherPort()
	t.must("look for another port", err)
	target := &Target{Host: t.target.Host, Device: t.target.Device, Port: t.target.Port, Addr: t.target.Addr, far: other}
	cfg := Config{AckTimeout: 100 * time.Millisecond, RetryCount: 3}
	reach := Check{ID: "reach", do: func(t *trial) {
		l := t.link(cfg)
		l.send(l.write(piece{0, 8}, 0))
	}}
	t.note("to port %d of %s", other.Port, other.Device)
	if r := reach.Run(t.ctx, target); r.Status != hwreport.Pass {
		t.end(hwreport.Unknown, fmt.Sprintf("the ports do not reach each other, so they may not be connected: %s", r.Reason))
	}
	data := Check{ID: "data", do: func(t *trial) {
		l := t.link(cfg)
		for i, size := range []int{1, 64, 4096, 30000} {
			sendOne(l, i, size)
			l.store(0, pattern(i+10, size))
			clear(l.mr.Bytes()[:size])
			l.send(verbs.SendWR{Opcode: verbs.OpRead, SGList: l.elements([]piece{{0, size}}), RemoteAddr: l.memory.Addr, RKey: l.memory.RKey})
			l.same(fmt.Sprintf("READ of %d bytes", size), l.mr.Bytes()[:size], pattern(i+10, size))
		}
	}}
	if r := data.Run(t.ctx, target); r.Status != hwreport.Pass {
		t.end(r.Status, r.Reason)
	}
}
