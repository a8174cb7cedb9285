// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"testing"

	"purerdma/cm"
)

// TestECE: what one side offers reaches the other, and back.
func TestECE(t *testing.T) {
	r := newRig(t)
	client := r.resolved()
	if err := client.SetLocalECE(cm.ECE{Options: 1}); err == nil {
		t.Error("options of no vendor")
	}
	r.ok(client.SetLocalECE(cm.ECE{VendorID: 0x15b3, Options: 0x123456}))
	server := r.requested(client, &cm.ConnParam{QPNum: 0x4711})
	if got := server.RemoteECE(); got != (cm.ECE{VendorID: 0x15b3, Options: 0x123456}) {
		t.Errorf("the request offers %+v", got)
	}
	r.ok(server.SetLocalECE(cm.ECE{VendorID: 1, Options: 0x56}))
	r.ok(server.Accept(&cm.ConnParam{QPNum: 0x4712}))
	r.want(r.client, client, cm.EventConnectResponse, 0)
	if got := client.RemoteECE(); got != (cm.ECE{VendorID: 0x15b3, Options: 0x56}) {
		t.Errorf("the response offers %+v", got)
	}
	with := r.withQP(r.resolved())
	if err := with.SetLocalECE(cm.ECE{VendorID: 1}); err == nil {
		t.Error("an ID with a QP has no options of its own")
	}
}
