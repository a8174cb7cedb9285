// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"testing"

	"purerdma/verbs"
)

// TestReceiveIntoOtherPD receives into memory of another PD than the QP's. A message that
// the provider copies out of its completion ends as one that the device writes itself.
func TestReceiveIntoOtherPD(t *testing.T) {
	for _, length := range []int{16, 64} {
		n := newNet(t, nil)
		a, b := n.pair(verbs.QPCap{SendWR: 4, RecvWR: 4, Inline: 64}, patient)
		pd, err := b.dev.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		closer(t, pd)
		other, err := pd.Alloc(64, verbs.LocalWrite)
		if err != nil {
			t.Fatal(err)
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
