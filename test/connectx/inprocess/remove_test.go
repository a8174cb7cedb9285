// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"errors"
	"testing"

	"purerdma/verbs"
)

// TestRemoved removes a card while a program waits for events. The program receives the event, all its calls fail,
// all objects can be closed, and the peer's requests get no answer.
func TestRemoved(t *testing.T) {
	n := newNet(t, nil)
	n.k.Fabric.SetPace(1000)
	a, b := n.pair(verbs.QPCap{}, patient)
	events := a.events()
	if n.k.Remove("mlx5_7") || !n.k.Remove("mlx5_0") || n.k.Remove("mlx5_0") {
		t.Error("Remove does not report which devices existed, want only mlx5_0, once")
	}
	var gone *verbs.DeviceRemovedError
	if ev, err := events.Next(deadline(t)); err != nil || ev.Type != verbs.AsyncDeviceFatal {
		t.Errorf("event = %+v, %v, want %v", ev, err, verbs.AsyncDeviceFatal)
	}
	if _, err := events.Next(deadline(t)); !errors.As(err, &gone) {
		t.Errorf("next event = %v, want a DeviceRemovedError", err)
	}
	select {
	case <-a.dev.Done():
	case <-deadline(t).Done():
		t.Fatal("Done() is not closed after the removal")
	}
	for what, err := range map[string]error{
		"post":   func() error { _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); return err }(),
		"poll":   func() error { _, err := a.cq.Poll(make([]verbs.WC, 1)); return err }(),
		"create": func() error { _, err := a.dev.AllocPD(); return err }(),
	} {
		if !errors.As(err, &gone) {
			t.Errorf("%s after the removal = %v, want a DeviceRemovedError", what, err)
		}
	}
	if _, err := n.host.Open("mlx5_0"); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("Open after the removal = %v, want %v", err, verbs.ErrNoDevice)
	}
	if out := n.k.Device("mlx5_0").Exec(make([]byte, 16), 16); out[0] != 0xff {
		t.Errorf("Exec on the removed card = %x, want 0xff first", out)
	}
	b.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, InlineData: []byte("x")})
	if wc := b.wait(1)[0]; wc.Status != verbs.WCRetryExcErr {
		t.Errorf("status of the peer's request = %v, want %v", wc.Status, verbs.WCRetryExcErr)
	}
}

// TestRemovedWhileWaiting removes a card while a program waits for completions. Any of its files may report the
// removal first.
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
			t.Errorf("Wait = %v, want a DeviceRemovedError", err)
		}
	}
}

// TestRemovedWhileBusy removes a card while requests are under way.
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
			case sent <- nil: // the first requests are under way
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
			t.Errorf("error of the requests = %v, want a DeviceRemovedError", err)
		}
		break
	}
}
