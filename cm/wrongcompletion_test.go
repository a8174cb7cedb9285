// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// TestWrongCompletion has a device complete a receive of a connection that was not posted.
// The receive that waits fails and names the cause, and so does each later call.
func TestWrongCompletion(t *testing.T) {
	machine := inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1")
	k := cmtest.New(machine)
	ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:7")
	go echo(ln)
	conn, err := (&cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}).Dial(within(t, 10*time.Second), "tcp", "10.0.0.1:7")
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	buf, err := conn.PD().Alloc(64, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	defer buf.Close()
	for id := range uint64(2) {
		if err := conn.PostRecv(id, buf.Slice(0, 8)); err != nil {
			t.Fatalf("conn.PostRecv: %v", err)
		}
	}
	received := make(chan error)
	go func() {
		for range 2 {
			_, err := conn.WaitRecv(within(t, 10*time.Second))
			received <- err
		}
	}()
	if !machine.Device(conn.Device().Name()).WrongCompletion(conn.QP().Num(), true) {
		t.Fatal("the device cannot complete a receive")
	}
	err = <-received
	var wc *verbs.WCError
	if !errors.As(err, &wc) || wc.Status != verbs.WCFatalErr || !strings.Contains(err.Error(), "completion that makes no sense") {
		t.Errorf("WaitRecv = %v, want a fatal error that names the cause", err)
	}
	if err := <-received; err == nil {
		t.Error("the second WaitRecv succeeded")
	}
	if err := conn.Send(within(t, 10*time.Second), buf.Slice(0, 8)); err == nil {
		t.Error("Send succeeded on a failed QP")
	} else {
		t.Log(err)
	}
	if got := conn.QP().State(); got != verbs.QPErr {
		t.Errorf("state %v, want ERR", got)
	}
}
