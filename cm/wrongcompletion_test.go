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

// TestWrongCompletion makes a device complete a receive that was not posted. The waiting
// WaitRecv fails and names the cause, and so does each later call.
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
		t.Fatal("WrongCompletion() = false, want true")
	}
	err = <-received
	var wc *verbs.WCError
	if !errors.As(err, &wc) || wc.Status != verbs.WCFatalErr || !strings.Contains(err.Error(), "invalid completion") {
		t.Errorf("WaitRecv = %v, want a fatal error that names the cause", err)
	}
	if err := <-received; err == nil {
		t.Error("second WaitRecv = nil, want an error")
	}
	if err := conn.Send(within(t, 10*time.Second), buf.Slice(0, 8)); err == nil {
		t.Error("Send on a failed QP = nil, want an error")
	} else {
		t.Logf("Send on a failed QP = %v", err)
	}
	if got := conn.QP().State(); got != verbs.QPErr {
		t.Errorf("State() = %v, want ERR", got)
	}
}
