// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/test/connectx/prm"
	"purerdma/verbs"
)

// TestFatal: the firmware of one card fails. Its users are told so, and the device is of
// no use from then on, long before the driver takes it away to reset the card; the other
// card's connection breaks; and the card that has been reset works again.
func TestFatal(t *testing.T) {
	l := newLink(t)
	card := keep(t, l.hosts[0])
	dev := l.server.Device()
	q := events(t, dev)
	l.hosts[0].Fault(t, "fatal", prm.HealthFirmware)
	expect(t, q, verbs.AsyncDeviceFatal)
	select {
	case <-dev.Done():
	case <-time.After(limit):
		t.Fatal("the device is not removed after AsyncDeviceFatal")
	}
	var gone *verbs.DeviceRemovedError
	if end, err := l.server.Wait(within(t)); err != nil || end.Event != cm.EventDeviceRemoval {
		t.Errorf("the connection's end: %v, %v", end, err)
	}
	if _, err := l.server.Device().CreateCQ(verbs.CQConfig{}); !errors.As(err, &gone) {
		t.Errorf("a CQ of a device that is gone: %v", err)
	}
	if err := l.write(t, 1); err == nil {
		t.Error("a WRITE to a card that has failed succeeds")
	}
	l.server.Close()
	card.restore(t)
	if err := newLink(t).write(t, 2); err != nil {
		t.Errorf("after the reset: %v", err)
	}
}
