// SPDX-License-Identifier: Apache-2.0

package verbs

import "testing"

// TestFired: a handle that the kernel names stands for a CQ of the channel that it came
// to, which is open, and for nothing else.
func TestFired(t *testing.T) {
	dev := new(deviceContext)
	ch, other := &CompChannel{dev: dev}, &CompChannel{dev: dev}
	cq := &CQ{dev: dev, ch: ch}
	cq.handle = dev.objects.add(cq)
	noEvents, qp := dev.objects.add(&CQ{dev: dev}), dev.objects.add(new(QP))
	if got := ch.eventOf(cq.handle); got != cq {
		t.Errorf("the event of its CQ is %p's, want %p", got, cq)
	}
	for what, got := range map[string]*CQ{
		"of another channel": other.eventOf(cq.handle), "without a channel": ch.eventOf(noEvents),
		"that is a QP": ch.eventOf(qp), "that does not exist": ch.eventOf(99),
	} {
		if got != nil {
			t.Errorf("an event of a CQ %s was taken", what)
		}
	}
	dev.objects.remove(cq.handle)
	if ch.eventOf(cq.handle) != nil {
		t.Error("an event of a closed CQ was taken")
	}
}
