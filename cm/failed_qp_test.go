// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/test/connectx/prm"
	"purerdma/verbs"
)

// TestDoneOfAFailedQP checks that an event of the device that reports a failed QP ends an idle connection at once,
// without a keepalive.
func TestDoneOfAFailedQP(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, devices *inprocess.Kernel, client, server *cm.Conn){
		"by the device": func(t *testing.T, devices *inprocess.Kernel, client, server *cm.Conn) {
			devices.Device(client.Device().Name()).FailQP(client.QP().Num(), prm.EventWQCatas)
		},
		"by a WRITE of the peer": func(t *testing.T, devices *inprocess.Kernel, client, server *cm.Conn) {
			buf, err := server.Alloc(64, verbs.LocalWrite)
			if err != nil {
				t.Fatalf("Alloc: %v", err)
			}
			err = server.Write(within(t, 10*time.Second), buf.SGE(), verbs.RemoteMemory{RKey: 77, Length: 64})
			if failed, ok := errors.AsType[*verbs.WCError](err); !ok || failed.Status != verbs.WCRemAccessErr {
				t.Errorf("Write to memory without a right = %v, want %v", err, verbs.WCRemAccessErr)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			devices := inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1")
			k := cmtest.New(devices)
			ln := listenOn(t, cm.ListenConfig{Host: k.Host(), KeepAlive: -1}, "10.0.0.1:7")
			client, server := dialed(t, ln, &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0"), KeepAlive: -1})
			fail(t, devices, client, server)
			select {
			case <-client.Done():
			case <-time.After(10 * time.Second):
				t.Fatalf("Done of a QP in the state %v is open", client.QP().State())
			}
			if failed, ok := errors.AsType[*verbs.WCError](client.Err()); !ok || failed.Status != verbs.WCWRFlushErr || failed.QPNum != client.QP().Num() {
				t.Errorf("Err() = %v, want the flush of QP %#x", client.Err(), client.QP().Num())
			}
			if broken, ok := errors.AsType[*cm.BrokenError](client.Err()); !ok || broken.Op != "" {
				t.Errorf("Err() = %v, want a *BrokenError without an operation", client.Err())
			}
		})
	}
}
