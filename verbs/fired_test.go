// SPDX-License-Identifier: Apache-2.0

package verbs

import "testing"

// TestEventOf checks which CQ an event belongs to. The handle from the kernel must be the handle
// of an open CQ of the channel that received the event.
func TestEventOf(t *testing.T) {
	dev := new(deviceContext)
	ch, other := &CompChannel{dev: dev}, &CompChannel{dev: dev}
	cq := &CQ{dev: dev, ch: ch}
	cq.handle = dev.objects.add(cq)
	noEvents, qp := dev.objects.add(&CQ{dev: dev}), dev.objects.add(new(QP))
	if got := ch.eventOf(cq.handle); got != cq {
		t.Errorf("eventOf = CQ %p, want %p", got, cq)
	}
	for what, got := range map[string]*CQ{
		"of another channel": other.eventOf(cq.handle), "without a channel": ch.eventOf(noEvents),
		"that is a QP": ch.eventOf(qp), "that does not exist": ch.eventOf(99),
	} {
		if got != nil {
			t.Errorf("eventOf accepted an event of a CQ %s", what)
		}
	}
	dev.objects.remove(cq.handle)
	if ch.eventOf(cq.handle) != nil {
		t.Error("eventOf accepted an event of a closed CQ")
	}
}
