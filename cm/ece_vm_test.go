// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"testing"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestECE checks that the options of each side reach the other side.
func TestECE(t *testing.T) {
	r := newRig(t)
	client := r.resolved()
	if err := client.SetLocalECE(verbs.ECE{Options: 1}); err == nil {
		t.Error("SetLocalECE with options of no vendor = nil, want an error")
	}
	r.ok(client.SetLocalECE(verbs.ECE{VendorID: 0x15b3, Options: 0x123456}))
	server := r.requested(client, &cm.ConnParam{QPNum: 0x4711})
	if got := server.RemoteECE(); got != (verbs.ECE{VendorID: 0x15b3, Options: 0x123456}) {
		t.Errorf("RemoteECE() of the request = %+v, want options 0x123456 of vendor 0x15b3", got)
	}
	r.ok(server.SetLocalECE(verbs.ECE{VendorID: 1, Options: 0x56}))
	r.ok(server.Accept(&cm.ConnParam{QPNum: 0x4712}))
	r.want(r.client, client, cm.EventConnectResponse, 0)
	if got := client.RemoteECE(); got != (verbs.ECE{VendorID: 0x15b3, Options: 0x56}) {
		t.Errorf("RemoteECE() of the response = %+v, want options 0x56 of vendor 0x15b3", got)
	}
	with := r.withQP(r.resolved())
	if err := with.SetLocalECE(verbs.ECE{VendorID: 1}); err == nil {
		t.Error("SetLocalECE on an ID with a QP = nil, want an error")
	}
}

// TestECEOfQPs checks that IDs with QPs exchange the options of their devices, and that each
// device gets the options of its peer. Devices without options offer none.
func TestECEOfQPs(t *testing.T) {
	r := newRig(t)
	server, client := r.connected()
	var want verbs.ECE
	if vmtest.Driver() == "mlx5" {
		fresh := r.withQP(r.resolved())
		var err error
		if want, err = fresh.QP().QueryECE(); err != nil || want.VendorID != 0x15b3 || want.Options == 0 {
			t.Fatalf("QueryECE() = %+v, %v, want options of vendor 0x15b3", want, err)
		}
		for name, id := range map[string]*cm.ID{"client": client, "server": server} {
			if got, err := id.QP().QueryECE(); err != nil || got != want {
				t.Errorf("%s: QueryECE() = %+v, %v, want %+v", name, got, err, want)
			}
		}
	}
	for name, id := range map[string]*cm.ID{"client": client, "server": server} {
		if got := id.RemoteECE(); got != want {
			t.Errorf("%s: RemoteECE() = %+v, want %+v", name, got, want)
		}
	}
	r.exchange(client, server)
	r.exchange(server, client)
}
