// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"testing"

	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// TestReceiveIntoOtherPD receives into memory of a PD that is not the QP's. The status must be equal for a message
// that the provider copies from its completion, and for a message that the device writes itself.
func TestReceiveIntoOtherPD(t *testing.T) {
	for _, length := range []int{16, 64} {
		n := newNet(t, nil)
		a, b := n.pair(verbs.QPCap{SendWR: 4, RecvWR: 4, Inline: 64}, patient)
		pd, err := b.dev.AllocPD()
		if err != nil {
			t.Fatalf("b.dev.AllocPD(): %v", err)
		}
		closer(t, pd)
		other, err := pd.Alloc(64, verbs.LocalWrite)
		if err != nil {
			t.Fatalf("pd.Alloc(64, verbs.LocalWrite): %v", err)
		}
		closer(t, other)
		b.recv(verbs.RecvWR{ID: 7, SGList: []verbs.SGE{other.SGE()}})
		message := make([]byte, length)
		for i := range message {
			message[i] = 0xff
		}
		a.send(verbs.SendWR{ID: 8, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: message})
		if wc := b.wait(1)[0]; wc.ID != 7 || wc.Status != verbs.WCLocProtErr {
			t.Errorf("%d bytes: receive %d completed with %v, want 7 with %v", length, wc.ID, wc.Status, verbs.WCLocProtErr)
		}
		for i, v := range other.Bytes() {
			if v != 0 {
				t.Fatalf("%d bytes: byte %d of the other PD's memory was written", length, i)
			}
		}
	}
}

// TestReceiveIntoClosedRegionAfterRemoval closes memory after the removal of the device, and then polls a message
// for it. The memory no longer exists, so the receive fails.
func TestReceiveIntoClosedRegionAfterRemoval(t *testing.T) {
	n := newNet(t, nil)
	a, b := n.pair(verbs.QPCap{SendWR: 4, RecvWR: 4, Inline: 64}, patient)
	mr, err := b.pd.Alloc(64, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("b.pd.Alloc(64, verbs.LocalWrite): %v", err)
	}
	b.recv(verbs.RecvWR{ID: 7, SGList: []verbs.SGE{mr.SGE()}})
	a.send(verbs.SendWR{ID: 8, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: make([]byte, 16)})
	a.wait(1)
	bridge.Functions.(*bridge.Verbs[*verbs.Host, *verbs.Device, *verbs.QP, *verbs.CQ, *verbs.SRQ, *verbs.WC]).MarkRemoved(b.dev)
	if err := mr.Close(); err != nil {
		t.Fatalf("mr.Close(): %v", err)
	}
	wcs := make([]verbs.WC, 2)
	if got, err := b.cq.Poll(wcs); got != 1 || err != nil || wcs[0].ID != 7 || wcs[0].Status != verbs.WCLocProtErr {
		t.Errorf("Poll = %d, %v, completion %+v, want receive 7 with %v", got, err, wcs[0], verbs.WCLocProtErr)
	}
}
