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

// TestFatal makes the firmware of one card fail. Its users get an event, and its device is
// unusable long before the driver removes it to reset the card. The other card's connection
// breaks. After the reset the card works again.
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
		t.Errorf("Wait = %v, %v, want a device removal", end, err)
	}
	if _, err := l.server.Device().CreateCQ(verbs.CQConfig{}); !errors.As(err, &gone) {
		t.Errorf("CreateCQ on a removed device = %v, want DeviceRemovedError", err)
	}
	if err := l.write(t, 1); err == nil {
		t.Error("write to a failed card = nil error")
	}
	l.server.Close()
	card.restore(t)
	if err := newLink(t).write(t, 2); err != nil {
		t.Errorf("write after the reset = %v", err)
	}
}
