// SPDX-License-Identifier: Apache-2.0

// Package prometheus collects the counters of a Host for Prometheus:
//
//	registry.MustRegister(prometheus.NewCollector(nil))
//
// The metrics have these names. All are counters except rdma_qps, rdma_cqs, rdma_connections_open,
// rdma_objects and rdma_object_level.
//
//	rdma_send_requests_total, rdma_send_bytes_total        posted, by device and opcode
//	rdma_receive_requests_total                            posted to QPs, by device
//	rdma_doorbells_total                                   by device
//	rdma_completions_total                                 by device and status
//	rdma_received_messages_total, rdma_received_bytes_total by device
//	rdma_cq_empty_polls_total, rdma_cq_waits_total,
//	rdma_cq_spin_hits_total, rdma_cq_wakeups_total         by device
//	rdma_qps, rdma_cqs                                     open, by device
//	rdma_port_counter_total                                of the device itself, by device, port and name
//	rdma_connections_open
//	rdma_dials_total, rdma_accepts_total                   by outcome
//	rdma_connection_ends_total                             by cause
//	rdma_connections_broken_total
//	rdma_objects                                           open, by kind of metrics.Snapshot.Objects
//	rdma_object_counter_total, rdma_object_level           by kind and name, such as pool and registered
package prometheus

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"purerdma/metrics"
	"purerdma/verbs"
)

// collector implements prometheus.Collector.
type collector struct{ host *verbs.Host }

// NewCollector returns a collector of the counters of a Host. nil means verbs.DefaultHost. Register one
// collector for each Host and registry.
func NewCollector(h *verbs.Host) prometheus.Collector { return collector{h} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("rdma_"+name, help, labels, nil)
}

var (
	sendRequests = desc("send_requests_total", "Posted send requests.", "device", "opcode")
	sendBytes    = desc("send_bytes_total", "Bytes of the posted send requests.", "device", "opcode")
	recvRequests = desc("receive_requests_total", "Receives posted to queue pairs.", "device")
	doorbells    = desc("doorbells_total", "Notifications of the device about new send requests.", "device")
	completions  = desc("completions_total", "Polled completions.", "device", "status")
	messages     = desc("received_messages_total", "Successful receives.", "device")
	messageBytes = desc("received_bytes_total", "Bytes of the received messages.", "device")
	emptyPolls   = desc("cq_empty_polls_total", "Polls that found no completion.", "device")
	waits        = desc("cq_waits_total", "Waits that found no completion in their first poll.", "device")
	spinHits     = desc("cq_spin_hits_total", "Waits that found a completion before they slept.", "device")
	wakeups      = desc("cq_wakeups_total", "Completion events that were read.", "device")
	qps          = desc("qps", "Open queue pairs.", "device")
	cqs          = desc("cqs", "Open completion queues.", "device")
	portCounter  = desc("port_counter_total", "Counter of the device for a port.", "device", "port", "counter")
	open         = desc("connections_open", "Established connections that have not been closed.")
	dials        = desc("dials_total", "Attempts to connect.", "outcome")
	accepts      = desc("accepts_total", "Connect requests.", "outcome")
	ends         = desc("connection_ends_total", "Ends of established connections.", "cause")
	objects      = desc("objects", "Listeners, pools, operation queues, streams and message connections that have not been closed.", "kind")
	objCounter   = desc("object_counter_total", "Sum of a counter of the objects of a kind.", "kind", "counter")
	objLevel     = desc("object_level", "Sum of a level of the open objects of a kind.", "kind", "level")
	broken       = desc("connections_broken_total", "Connections whose queue pair failed or of which an operation was cancelled.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sendRequests, sendBytes, recvRequests, doorbells, completions, messages, messageBytes,
		emptyPolls, waits, spinHits, wakeups, qps, cqs, portCounter, open, dials, accepts, ends, broken, objects, objCounter, objLevel} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := metrics.Read(c.host)
	for i := range s.Devices {
		collectDevice(ch, &s.Devices[i])
	}
	for _, p := range s.Ports {
		for name, n := range p.Counters {
			counter(ch, portCounter, n, p.Device, strconv.Itoa(p.Port), name)
		}
	}
	for kind, o := range s.Objects {
		gauge(ch, objects, float64(o.Open), kind)
		for name, n := range o.Counters {
			counter(ch, objCounter, n, kind, snake(name))
		}
		for name, n := range o.Levels {
			gauge(ch, objLevel, float64(n), kind, snake(name))
		}
	}
	n := &s.Connections
	gauge(ch, open, float64(n.Open))
	counter(ch, dials, n.Dials.Established, "established")
	counter(ch, dials, n.Dials.Rejected, "rejected")
	counter(ch, dials, n.Dials.Unreachable, "unreachable")
	counter(ch, dials, n.Dials.Cancelled, "cancelled")
	counter(ch, dials, n.Dials.Failed, "failed")
	counter(ch, accepts, n.Accepts.Established, "established")
	counter(ch, accepts, n.Accepts.Rejected, "rejected")
	counter(ch, accepts, n.Accepts.Refused, "refused")
	counter(ch, accepts, n.Accepts.Expired, "expired")
	counter(ch, accepts, n.Accepts.Failed, "failed")
	counter(ch, ends, n.Ends.Local, "local")
	counter(ch, ends, n.Ends.Peer, "peer")
	counter(ch, ends, n.Ends.Removed, "removed")
	counter(ch, ends, n.Ends.Closed, "closed")
	counter(ch, broken, n.Broken)
}

func collectDevice(ch chan<- prometheus.Metric, d *verbs.DeviceStats) {
	for op, c := range d.QP.Sends {
		if c.Operations > 0 {
			name := label(verbs.SendOpcode(op).String())
			counter(ch, sendRequests, c.Operations, d.Device, name)
			counter(ch, sendBytes, c.Bytes, d.Device, name)
		}
	}
	counter(ch, recvRequests, d.QP.Receives, d.Device)
	counter(ch, doorbells, d.QP.Doorbells, d.Device)
	for status, n := range d.CQ.Completions {
		if n > 0 || verbs.WCStatus(status) == verbs.WCSuccess {
			counter(ch, completions, n, d.Device, label(verbs.WCStatus(status).String()))
		}
	}
	counter(ch, messages, d.CQ.Received.Operations, d.Device)
	counter(ch, messageBytes, d.CQ.Received.Bytes, d.Device)
	counter(ch, emptyPolls, d.CQ.EmptyPolls, d.Device)
	counter(ch, waits, d.CQ.Waits, d.Device)
	counter(ch, spinHits, d.CQ.SpinHits, d.Device)
	counter(ch, wakeups, d.CQ.Wakeups, d.Device)
	gauge(ch, qps, float64(d.QPs), d.Device)
	gauge(ch, cqs, float64(d.CQs), d.Device)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// snake returns a name of Go in the form of labels, such as "room_waits".
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// label returns a name in the form of labels, such as "local_protection_error".
func label(name string) string { return strings.ReplaceAll(strings.ToLower(name), " ", "_") }
