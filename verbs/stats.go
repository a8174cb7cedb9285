// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"purerdma/provider"
	"purerdma/uverbs"
)

// CQStats counts what a CQ has done since it was made.
type CQStats struct {
	// Completions counts the polled completions by their WCStatus.
	Completions StatusCounts
	// Received counts the successful receives, and the bytes of their messages.
	Received Count
	// EmptyPolls counts the calls of Poll that found no completion.
	EmptyPolls uint64
	// Waits counts the waits that found no completion in their first poll. SpinHits counts the
	// waits that then found one by polling for a short time (SetSpin). The other waits sleep.
	Waits, SpinHits uint64
	// Wakeups counts the events of the CQ that were read from its channel. Each of them wakes a
	// goroutine.
	Wakeups uint64
}

// add adds the counts of another CQ.
func (s *CQStats) add(o *CQStats) {
	for i := range s.Completions {
		s.Completions[i] += o.Completions[i]
	}
	addCount(&s.Received, o.Received)
	s.EmptyPolls += o.EmptyPolls
	s.Waits += o.Waits
	s.SpinHits += o.SpinHits
	s.Wakeups += o.Wakeups
}

func addCount(c *Count, o Count) {
	c.Operations += o.Operations
	c.Bytes += o.Bytes
}

// addQPStats adds the counts of another QP to s.
func addQPStats(s, o *QPStats) {
	for i := range s.Sends {
		addCount(&s.Sends[i], o.Sends[i])
	}
	s.Receives += o.Receives
	s.Doorbells += o.Doorbells
}

// Stats returns the counts of the QP. They stay available after Close. Stats waits for a Batch that
// is being built, so the goroutine that builds it must not call Stats. It takes no lock of a QP with
// QPConfig.Unlocked. Then the counts of a concurrent post may be missing. A provider of another
// module need not count.
func (q *QP) Stats() QPStats {
	if p, ok := q.p.(provider.QPCounter); ok {
		return p.Stats()
	}
	return QPStats{}
}

// Stats returns the counts of the CQ, with the completions of all its QPs. They stay available after
// Close. A provider of another module need not count completions.
func (c *CQ) Stats() CQStats {
	s := CQStats{
		EmptyPolls: c.empty.Load(),
		Waits:      c.waits.Load(),
		SpinHits:   c.spin.hits.Load(),
		Wakeups:    c.wakeups.Load(),
	}
	if p, ok := c.p.(provider.CQCounter); ok {
		counts := p.Counts()
		s.Completions, s.Received = counts.Completions, counts.Received
	}
	return s
}

// DeviceStats sums up the counts of the QPs and CQs of a device, including closed ones.
type DeviceStats struct {
	Device string // name, such as "rxe0"
	QPs    int    // open QPs
	CQs    int    // open CQs
	QP     QPStats
	CQ     CQStats
}

func (s *DeviceStats) add(o *DeviceStats) {
	s.QPs += o.QPs
	s.CQs += o.CQs
	addQPStats(&s.QP, &o.QP)
	s.CQ.add(&o.CQ)
}

// closedStats has the counts of the closed objects of a device.
type closedStats struct {
	// mu is held from the count of an object in sum until its removal from the objects, so that no
	// object counts twice.
	mu  sync.Mutex
	sum DeviceStats
}

// removeCounted removes a closed QP or CQ from the objects, and keeps its counts.
func (s *deviceContext) removeCounted(handle uint64, object any) {
	s.closedStats.mu.Lock()
	defer s.closedStats.mu.Unlock()
	switch o := object.(type) {
	case *QP:
		st := o.Stats()
		addQPStats(&s.closedStats.sum.QP, &st)
	case *CQ:
		st := o.Stats()
		s.closedStats.sum.CQ.add(&st)
	}
	s.objects.remove(handle)
}

// stats sums up the counts of the objects.
func (s *deviceContext) stats() DeviceStats {
	s.closedStats.mu.Lock()
	defer s.closedStats.mu.Unlock()
	sum := s.closedStats.sum
	sum.Device = s.info.Name
	for _, object := range s.objects.complete() {
		switch o := object.(type) {
		case *QP:
			st := o.Stats()
			addQPStats(&sum.QP, &st)
			sum.QPs++
		case *CQ:
			st := o.Stats()
			sum.CQ.add(&st)
			sum.CQs++
		}
	}
	return sum
}

// Stats sums up the counts of the QPs and CQs of the device that were made through its Host since
// the device was opened, including closed ones. It reads each object, and so takes time in
// proportion to their number. As for QP.Stats, a goroutine that builds a Batch must not call it.
func (d *Device) Stats() DeviceStats { return d.deviceContext.stats() }

// PortCounters returns the counters that the device itself keeps for a port, by the names of its driver.
// They include the traffic of all processes, and report RNR NAKs, retries and lost packets as far as
// the device does: docs/howto/metrics.md has the names. The kernel may return the counters that it read
// up to 10 ms ago (hw_counters/lifespan). A device without counters has none. The error
// wraps errors.ErrUnsupported if the Host has a Kernel without counters, such as a fake kernel.
func (d *Device) PortCounters(port uint8) (map[string]uint64, error) {
	k := d.host.Kernel
	if k == nil {
		k = uverbs.System{}
	}
	c, ok := k.(uverbs.PortCounters)
	if !ok {
		return nil, d.opError("read the counters of", errors.ErrUnsupported)
	}
	counters, err := c.PortCounters(d.info, int(port))
	return counters, d.opError("read the counters of", err)
}

// PortCounters returns Device.PortCounters of each port of an open device, by the number of the port - 1.
// It returns nil if the device is not open, or has no counters.
func (h *Host) PortCounters(device string) []map[string]uint64 {
	h.mu.Lock()
	i := slices.IndexFunc(h.contexts, func(c *deviceContext) bool { return c.info.Name == device && !c.isRemoved() })
	var c *deviceContext
	if i >= 0 {
		c = h.contexts[i]
	}
	h.mu.Unlock()
	if c == nil {
		return nil
	}
	var ports []map[string]uint64
	for port := range c.links {
		counters, err := c.self.PortCounters(uint8(port + 1))
		if err != nil {
			return nil
		}
		ports = append(ports, counters)
	}
	return ports
}

// Stats returns the counts of the devices of the Host, in the order of their names. A device that
// was closed keeps its counts. If a device is opened again, the new counts are added to the old
// ones.
func (h *Host) Stats() []DeviceStats {
	h.mu.Lock()
	sums := make(map[string]DeviceStats, len(h.closedStats))
	for name, s := range h.closedStats {
		sums[name] = *s
	}
	contexts := slices.Clone(h.contexts)
	h.mu.Unlock()
	for _, c := range contexts {
		st, sum := c.stats(), sums[c.info.Name]
		sum.Device = c.info.Name
		sum.add(&st)
		sums[c.info.Name] = sum
	}
	list := make([]DeviceStats, 0, len(sums))
	for _, s := range sums {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b DeviceStats) int { return strings.Compare(a.Device, b.Device) })
	return list
}

// keepStats keeps the counts of a device whose last object was closed. The caller holds the lock.
func (h *Host) keepStats(c *deviceContext) {
	h.contexts = slices.DeleteFunc(h.contexts, func(o *deviceContext) bool { return o == c })
	if h.closedStats == nil {
		h.closedStats = make(map[string]*DeviceStats)
	}
	st := c.stats()
	if sum := h.closedStats[st.Device]; sum != nil {
		sum.add(&st)
	} else {
		h.closedStats[st.Device] = &st
	}
}
