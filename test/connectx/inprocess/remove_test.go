// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"errors"
	"testing"

	"purerdma/verbs"
)

// TestRemoved pulls a card out under a program that waits for events: it is told, all
// that it calls fails, everything can be closed, and the peer's requests find nobody.
func TestRemoved(t *testing.T) {
	n := newNet(t, nil)
	n.k.Fabric.SetPace(1000)
	a, b := n.pair(verbs.QPCap{}, patient)
	events := a.events()
	if n.k.Remove("mlx5_7") || !n.k.Remove("mlx5_0") || n.k.Remove("mlx5_0") {
		t.Error("other devices are removed than there are")
	}
	var gone *verbs.DeviceRemovedError
	if ev, err := events.Next(deadline(t)); err != nil || ev.Type != verbs.AsyncDeviceFatal {
		t.Errorf("event %+v, %v", ev, err)
	}
	if _, err := events.Next(deadline(t)); !errors.As(err, &gone) {
		t.Errorf("the next event: %v", err)
	}
	select {
	case <-a.dev.Done():
	case <-deadline(t).Done():
		t.Fatal("the device is not removed")
	}
	for what, err := range map[string]error{
		"post":   func() error { _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); return err }(),
		"poll":   func() error { _, err := a.cq.Poll(make([]verbs.WC, 1)); return err }(),
		"create": func() error { _, err := a.dev.AllocPD(); return err }(),
	} {
		if !errors.As(err, &gone) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := n.host.Open("mlx5_0"); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("open it again: %v", err)
	}
	if out := n.k.Device("mlx5_0").Exec(make([]byte, 16), 16); out[0] != 0xff {
		t.Errorf("a card that was pulled out answers %x", out)
	}
	b.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, InlineData: []byte("x")})
	if wc := b.wait(1)[0]; wc.Status != verbs.WCRetryExcErr {
		t.Errorf("the peer's request: %v", wc.Status)
	}
}

// TestRemovedWhileWaiting pulls a card out under a program that waits for completions. It
// has learned from whichever file said so first.
func TestRemovedWhileWaiting(t *testing.T) {
	n := newNet(t, nil)
	a, _ := n.pair(verbs.QPCap{}, patient)
	waited := make(chan error)
	for range 3 {
		go func() {
			_, err := a.cq.Wait(deadline(t), make([]verbs.WC, 1))
			waited <- err
		}()
	}
	n.k.Remove("mlx5_0")
	for range 3 {
		var gone *verbs.DeviceRemovedError
		if err := <-waited; !errors.As(err, &gone) {
			t.Errorf("waiting for completions: %v", err)
		}
	}
}

// TestRemovedWhileBusy pulls a card out while requests go back and forth.
func TestRemovedWhileBusy(t *testing.T) {
	n := newNet(t, nil)
	a, b := n.pair(verbs.QPCap{}, patient)
	sent := make(chan error)
	go func() {
		wcs := make([]verbs.WC, 16)
		for {
			_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.Slice(0, 1024)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}})
			if err == nil || errors.Is(err, verbs.ErrFull) {
				_, err = a.cq.Poll(wcs)
			}
			if err != nil {
				sent <- err
				return
			}
			select {
			case sent <- nil: // the first requests are on their way
			default:
			}
		}
	}()
	<-sent
	n.k.Remove("mlx5_0")
	var gone *verbs.DeviceRemovedError
	for err := range sent {
		if err == nil {
			continue
		}
		if !errors.As(err, &gone) {
			t.Errorf("the requests end with %v", err)
		}
		break
	}
}
