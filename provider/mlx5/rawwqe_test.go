// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"testing"

	"purerdma/provider"
)

func TestRawPacket(t *testing.T) {
	header := []byte("0123456789abcdefgh")
	data := words(46, 0x99, 0x11223344, 0x55667788)
	t.Run("Header", func(t *testing.T) {
		r := newSendRig(t, wantsHeaders)
		q, dev := r.qp(r.config(provider.RawPacket))
		want := func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0xa, num, 4, 0, 0), words(0, 0xc0000000, 0), []byte{0, 18}, header, data)
		}
		everywhere(t, r, q, dev, 1, provider.SendWR{Opcode: provider.OpSend, Header: header, SGList: sge(46), Flags: provider.SendIPChecksum}, want)
		want = func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0xa, num, 5, 0, 0), words(0, 0, 0), []byte{0, 18}, header, words(1<<31|20), []byte("ijklmnopqrstuvwxyz.."))
		}
		everywhere(t, r, q, dev, 2, provider.SendWR{Opcode: provider.OpSend, InlineData: []byte("0123456789abcdefghijklmnopqrstuvwxyz..")}, want)
	})
	t.Run("NoHeader", func(t *testing.T) {
		r := newSendRig(t, nil)
		q, dev := r.qp(r.config(provider.RawPacket))
		everywhere(t, r, q, dev, 1, provider.SendWR{Opcode: provider.OpSend, SGList: sge(46)}, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0xa, num, 3, 0, 0), make([]byte, 16), data)
		})
	})
	t.Run("LSO", func(t *testing.T) {
		r := newSendRig(t, nil)
		cfg := r.config(provider.RawPacket)
		cfg.MaxLSOHeader = 100
		q, dev := r.qp(cfg)
		for _, n := range []int{14, 18, 19, 54, 66, 100} {
			h := make([]byte, n)
			for i := range h {
				h[i] = byte(i + 1)
			}
			segs := 1 + (n-2+15)/16
			wr := provider.SendWR{Opcode: provider.OpLSO, Header: h, MSS: 1400, SGList: sge(46)}
			everywhere(t, r, q, dev, uint32(segs+2+3)/4, wr, func(num uint32, cur uint16) []byte {
				b := join(ctrl(cur, 0xe, num, uint32(segs+2), 0, 0), words(0, 1400, 0), []byte{0, byte(n)}, h)
				for len(b)%segment != 0 {
					if len(b) < 3*segment {
						b = append(b, 0) // part of the Ethernet segment
					} else {
						b = append(b, 0xcc)
					}
				}
				return join(b, data)
			})
		}
	})
}

// TestRawReceives checks that the provider publishes receives to the device only when the QP is
// in RTR.
func TestRawReceives(t *testing.T) {
	r := newSendRig(t, nil)
	p, err := r.ctx.CreateQP(r.config(provider.RawPacket))
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	q := p.(*QP)
	defer q.Close()
	dev := r.k.QPs()[0]
	for round := range 2 {
		moveTo(t, q, provider.QPInit)
		if n, err := q.PostRecv(make([]provider.RecvWR, 3)); n != 3 || err != nil {
			t.Fatalf("QP.PostRecv = %d, %v, want 3, nil", n, err)
		}
		if dev.RecvCounter() != 0 {
			t.Errorf("round %d: RecvCounter() = %d in INIT, want 0", round, dev.RecvCounter())
		}
		a := provider.QPAttr{State: provider.QPRTR}
		if err := q.Modify(&a, provider.QPAttrState); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
		if dev.RecvCounter() != 3 {
			t.Errorf("round %d: RecvCounter() = %d in RTR, want 3", round, dev.RecvCounter())
		}
		if n, err := q.PostRecv(make([]provider.RecvWR, 1)); n != 1 || err != nil || dev.RecvCounter() != 4 {
			t.Errorf("round %d: PostRecv in RTR = %d, %v with counter %d, want 1, nil and 4", round, n, err, dev.RecvCounter())
		}
		if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
	}
}
