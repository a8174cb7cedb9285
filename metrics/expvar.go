// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"expvar"

	"purerdma/verbs"
)

// Publish publishes the counters of a Host as a variable of package expvar with a name. nil means
// verbs.DefaultHost. Each reading of the variable reads the counters. Publish panics if the name is in
// use, as expvar.Publish does.
//
// Opcodes and statuses without a count are left out. Requests have the names of verbs.SendOpcode, and
// completions have the names of verbs.WCStatus.
func Publish(name string, h *verbs.Host) {
	expvar.Publish(name, expvar.Func(func() any { return variable(Read(h)) }))
}

// variable returns the value of the variable.
func variable(s Snapshot) map[string]any {
	devices := make(map[string]any)
	for i := range s.Devices {
		devices[s.Devices[i].Device] = device(&s.Devices[i])
	}
	ports := make(map[string]map[int]map[string]uint64)
	for _, p := range s.Ports {
		if ports[p.Device] == nil {
			ports[p.Device] = make(map[int]map[string]uint64)
		}
		ports[p.Device][p.Port] = p.Counters
	}
	return map[string]any{"devices": devices, "connections": s.Connections, "ports": ports, "objects": s.Objects}
}

// device returns the counters of a device by their names.
func device(d *verbs.DeviceStats) map[string]any {
	sends := make(map[string]verbs.Count)
	for op, c := range d.QP.Sends {
		if c.Operations > 0 {
			sends[verbs.SendOpcode(op).String()] = c
		}
	}
	completions := make(map[string]uint64)
	for status, n := range d.CQ.Completions {
		if n > 0 {
			completions[verbs.WCStatus(status).String()] = n
		}
	}
	return map[string]any{
		"QPs": d.QPs, "CQs": d.CQs,
		"Sends": sends, "Receives": d.QP.Receives, "Doorbells": d.QP.Doorbells,
		"Completions": completions, "Received": d.CQ.Received,
		"EmptyPolls": d.CQ.EmptyPolls, "Waits": d.CQ.Waits, "SpinHits": d.CQ.SpinHits, "Wakeups": d.CQ.Wakeups,
	}
}
