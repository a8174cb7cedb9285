// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw

import (
	"errors"
	"net"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
)

func TestCompletions(t *testing.T) {
	r := newRig(t, 4)
	for i := range 3 * uint64(r.cq.Entries()) {
		r.complete(abi.SiwCQE{ID: i, Opcode: abi.SIW_OP_RECEIVE, Status: abi.SIW_WC_LOC_ACCESS_ERR, Bytes: 17})
		if i%2 == 1 {
			wcs := r.poll(9)
			want := provider.WC{ID: i - 1, Status: provider.WCLocAccessErr, Opcode: provider.WCRecv, QPNum: 0x77, ByteLen: 17}
			if len(wcs) != 2 || wcs[0] != want {
				t.Fatalf("completions = %+v, want 2, of which the first is %+v", wcs, want)
			}
		}
	}
	for status, want := range statuses {
		r.complete(abi.SiwCQE{Status: uint16(status), Opcode: abi.SIW_OP_READ})
		if wc := r.poll(1)[0]; wc.Status != want || wc.Opcode != provider.WCRead {
			t.Errorf("completion of status %d = %+v, want status %v of a READ", status, wc, want)
		}
	}
	// Statuses and opcodes that siw never reports.
	for _, c := range []abi.SiwCQE{{Opcode: 200}, {Status: 10}, {Status: 0xffff}, {Opcode: abi.SIW_OP_READ_RESPONSE}} {
		r.complete(c)
		if wc := r.poll(1)[0]; wc.Status != provider.WCGeneralErr || wc.VendorErr == 0 {
			t.Errorf("completion of %+v = %+v, want WCGeneralErr with a vendor error", c, wc)
		}
	}
	// The ring is completely full.
	for i := range uint64(r.cq.Entries()) {
		r.complete(abi.SiwCQE{ID: i})
	}
	if n := len(r.poll(100)); n != r.cq.Entries() {
		t.Errorf("poll = %d completions, want %d", n, r.cq.Entries())
	}
	if err := r.f.Close(); err != nil {
		t.Fatalf("File.Close: %v", err)
	}
	if _, err := r.cq.Poll(make([]provider.WC, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Poll after Close of the file = %v, want net.ErrClosed", err)
	}
	if err := r.cq.Arm(false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Arm after Close of the file = %v, want net.ErrClosed", err)
	}
}

func TestArm(t *testing.T) {
	r := newRig(t, 4)
	word := func() uint32 { return abi.View[abi.SiwCQCtrl](r.cq.mapping.Bytes()[r.cq.Entries()*32:]).Flags }
	for _, solicited := range []bool{true, false, true} {
		if err := r.cq.Arm(solicited); err != nil || word() != abi.SIW_NOTIFY_SOLICITED|abi.SIW_NOTIFY_NEXT_COMPLETION {
			t.Errorf("Arm(%v) = %v, word = %d, want SIW_NOTIFY_SOLICITED and SIW_NOTIFY_NEXT_COMPLETION", solicited, err, word())
		}
		abi.View[abi.SiwCQCtrl](r.cq.mapping.Bytes()[r.cq.Entries()*32:]).Flags = 0
	}
}

// FuzzPoll polls completions from a ring with arbitrary contents.
func FuzzPoll(f *testing.F) {
	f.Add(make([]byte, 64))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRig(t, 1)
		copy(r.cq.mapping.Bytes(), b)
		r.cq.purge(uint32(len(b)%3), nil)
		wcs := make([]provider.WC, 9)
		for range 3 {
			if n, err := r.cq.Poll(wcs); err != nil || n > r.cq.Entries() {
				t.Fatalf("cq.Poll = %d, %v, want at most %d, nil", n, err, r.cq.Entries())
			}
		}
	})
}
