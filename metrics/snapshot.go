// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"purerdma/cm"
	"purerdma/verbs"
)

// Snapshot has the counters of a Host at one time.
type Snapshot struct {
	Devices     []verbs.DeviceStats
	Connections cm.Stats
	Ports       []Port
}

// Port has the counters that a device itself keeps for a port: see verbs.Device.PortCounters.
type Port struct {
	Device   string
	Port     int // from 1
	Counters map[string]uint64
}

// Read reads the counters of a Host. nil means verbs.DefaultHost. Ports has the ports of the devices that
// are open, as far as they have counters. Reading them takes a file of sysfs for each counter.
func Read(h *verbs.Host) Snapshot {
	if h == nil {
		h = verbs.DefaultHost()
	}
	s := Snapshot{Devices: h.Stats(), Connections: cm.StatsOf(h)}
	for i := range s.Devices {
		d := &s.Devices[i]
		for port, counters := range h.PortCounters(d.Device) {
			s.Ports = append(s.Ports, Port{Device: d.Device, Port: port + 1, Counters: counters})
		}
	}
	return s
}
