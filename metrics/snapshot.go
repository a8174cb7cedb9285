// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"purerdma/cm"
	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// Snapshot has the counters of a Host at one time.
type Snapshot struct {
	Devices     []verbs.DeviceStats
	Connections cm.Stats
	Ports       []Port
	// Objects has sums over the objects of packages above verbs, by kind:
	//
	//	listener  cm.Listener. Connections.Accepts has the sums of the counters
	//	pool      pool.Pool, with the pools of connections
	//	queue     inflight.Queue, with the queues of connections
	//	stream    stream.Conn
	//	msg       msg.Conn
	Objects map[string]Objects
}

// Objects has sums over the objects of one kind. The names of the counters are the names of the fields of their Stats. Streams
// have FramesSent, BytesSent, FramesReceived, BytesReceived, CreditStalls and MemoryStalls.
type Objects struct {
	Open     int               // objects that have not been closed
	Counters map[string]uint64 // since the start of the process, with closed objects
	Levels   map[string]uint64 // of the open objects at this time, such as bytes in use
}

var counting = bridge.CountingFunctions.(*bridge.Counting[*verbs.Host, *verbs.QP, *verbs.PD])

// Port has the counters that a device itself keeps for a port: see verbs.Device.PortCounters.
type Port struct {
	Device   string
	Port     int // from 1
	Counters map[string]uint64
}

// Read reads the counters of a Host. nil means verbs.DefaultHost. Ports has the ports of the devices that
// are open, as far as they have counters. Reading them takes a file of sysfs for each counter. Reading Objects takes time in
// proportion to the number of open objects.
func Read(h *verbs.Host) Snapshot {
	if h == nil {
		h = verbs.DefaultHost()
	}
	s := Snapshot{Devices: h.Stats(), Connections: cm.StatsOf(h), Objects: make(map[string]Objects)}
	for kind, c := range counting.Sums(h) {
		s.Objects[kind] = Objects{Open: c.Open, Counters: c.Counters, Levels: c.Levels}
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		for port, counters := range h.PortCounters(d.Device) {
			s.Ports = append(s.Ports, Port{Device: d.Device, Port: port + 1, Counters: counters})
		}
	}
	return s
}
