// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"encoding/binary"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// The bytes below are derived from the PRM. TestVectors compares the transports and operations
// that libmlx5 supports with libmlx5.

// atBlock moves a QP's ring to a block, so that a WQE that begins there wraps around.
func atBlock(t testing.TB, r *sendRig, q *QP, dev *mlx5test.QP, block uint32) {
	t.Helper()
	q.sq.cur = block
	r.poison(dev)
}

// everywhere runs a test with WQEs at the start of the ring, and at positions where the ring
// ends after each of their blocks.
func everywhere(t *testing.T, r *sendRig, q *QP, dev *mlx5test.QP, blocks uint32, wr provider.SendWR, want func(num uint32, cur uint16) []byte) {
	t.Helper()
	n := uint32(len(dev.SQ) / wqebb)
	for at := n - blocks; at <= n; at++ {
		atBlock(t, r, q, dev, at)
		q.sq.setFence(0)
		post(t, q, wr)
		checkWQE(t, dev, uint16(at), want(q.Num(), uint16(at)))
		q.sq.tail = q.sq.head
		if got := uint32(dev.SendCounter()); got != at+blocks {
			t.Errorf("SendCounter() = %d after %d blocks at %d, want %d", got, blocks, at, at+blocks)
		}
	}
}

// ctrl returns a control segment.
func ctrl(cur uint16, opcode, num, ds, flags, imm uint32) []byte {
	return words(uint32(cur)<<8|opcode, num<<8|ds, flags, imm)
}

func TestUMR(t *testing.T) {
	r := newSendRig(t, nil)
	q, dev := r.qp(r.config(provider.RC))
	bind := provider.MWBindInfo{MW: 0x1100, RKey: 0x11c3, LKey: 0x2200, Addr: 0x7f0000001000, Length: 0x12345, Access: provider.RemoteWrite | provider.RemoteAtomic}
	t.Run("Bind2", func(t *testing.T) {
		b := bind
		b.Type = provider.MWType2
		everywhere(t, r, q, dev, 3, provider.SendWR{Opcode: provider.OpBindMW, Bind: &b, Flags: provider.SendSignaled}, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x25, num, 12, 8, 0x1100),
				words(0xb0000000, 4<<16, 0, 1<<29|1<<13|1<<14|1|1<<6|1<<18|1<<19|1<<20|1<<21), make([]byte, 32),
				[]byte{0, 0xcc, 0x60, 0xcc}, words(num<<8|0xc3), stale(2), words(0x7f00, 0x00001000, 0, 0x12345), stale(8),
				words(0x12345, 0x2200, 0x7f00, 0x00001000), make([]byte, 48))
		})
	})
	t.Run("Bind1", func(t *testing.T) {
		b := bind
		b.Type, b.Access = provider.MWType1, provider.LocalWrite|provider.RemoteRead|provider.ZeroBased
		everywhere(t, r, q, dev, 3, provider.SendWR{Opcode: provider.OpBindMW, Bind: &b}, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x25, num, 12, 0, 0x1100),
				words(0x90000000, 4<<16, 0, 1<<29|1<<13|1|1<<6|1<<18|1<<19|1<<20|1<<21), make([]byte, 32),
				[]byte{0, 0xcc, 0x18, 0xcc}, words(0xffffffc3), stale(2), words(0, 0, 0, 0x12345), stale(8),
				words(0x12345, 0x2200, 0x7f00, 0x00001000), make([]byte, 48))
		})
	})
	t.Run("Unbind1", func(t *testing.T) {
		b := provider.MWBindInfo{Type: provider.MWType1, MW: 0x1100, RKey: 0x1101}
		everywhere(t, r, q, dev, 2, provider.SendWR{Opcode: provider.OpBindMW, Bind: &b}, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x25, num, 8, 0, 0x1100),
				words(0x90000000, 0, 0, 1<<29|1<<13), make([]byte, 32),
				[]byte{0x40, 0xcc, 0xcc, 0xcc}, words(0xffffff01), stale(14))
		})
	})
	t.Run("LocalInv", func(t *testing.T) {
		everywhere(t, r, q, dev, 2, provider.SendWR{Opcode: provider.OpLocalInv, InvalidateRKey: 0x1234}, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x25, num, 8, 0, 0x1234),
				words(0x98000000, 0, 0, 1<<29|1<<13|1<<14), make([]byte, 32),
				[]byte{0x40, 0xcc, 0xcc, 0xcc}, words(0xffffff00), stale(14))
		})
	})
}

// TestSmallFence checks that the request after an invalidation has a fence that waits for it.
// This applies across posts, discarded batches and refused requests. A request with its own
// fence keeps that fence.
func TestSmallFence(t *testing.T) {
	r := newSendRig(t, nil)
	q, dev := r.qp(r.config(provider.RC))
	inv := provider.SendWR{Opcode: provider.OpLocalInv}
	send := provider.SendWR{Opcode: provider.OpSend, SGList: sge(8)}
	fenced := send
	fenced.Flags = provider.SendFence
	check := func(at uint16, want uint8) {
		t.Helper()
		if d := dev.SendAt(at); d.Flags != want {
			t.Errorf("flags of the request at %d = %#x, want %#x", at, d.Flags, want)
		}
	}
	post(t, q, inv, send, send) // 2, 1, 1 blocks
	check(2, ctrlSmallFence)
	check(3, 0)
	post(t, q, inv) // 4
	q.BatchBegin()
	q.BatchAdd(&send)
	q.BatchDiscard()
	if _, err := q.PostSend([]provider.SendWR{{Opcode: 99}}); err == nil {
		t.Error("PostSend of opcode 99 succeeded")
	}
	post(t, q, provider.SendWR{Opcode: provider.OpSend, InlineData: []byte{1}}) // 6
	check(6, ctrlSmallFence)
	post(t, q, inv, fenced, send) // 7, 9, 10
	check(9, ctrlFence)
	check(10, 0)
	q.BatchBegin() // 11
	for _, err := range []error{q.BatchAdd(&inv), q.BatchWrite(1, send.SGList[0], anywhere, 0), q.BatchWrite(2, send.SGList[0], anywhere, 0), q.BatchPost()} {
		if err != nil {
			t.Errorf("batch of an invalidation and two writes: %v", err)
		}
	}
	check(13, ctrlSmallFence)
	check(14, 0)
}

// TestMaxSizes posts requests of the maximum size.
func TestMaxSizes(t *testing.T) {
	r := newSendRig(t, nil)
	cfg := r.config(provider.RawPacket)
	cfg.MaxLSOHeader = 54
	raw, _ := r.qp(cfg)
	post(t, raw, provider.SendWR{Opcode: provider.OpLSO, Header: make([]byte, 54), MSS: 1400, SGList: sge(raw.sq.packets.maxLSO)})
	rc, dev := r.qp(r.config(provider.RC))
	post(t, rc, provider.SendWR{Opcode: provider.OpBindMW, Bind: &provider.MWBindInfo{Type: provider.MWType1, Length: maxWindow}})
	if got := binary.BigEndian.Uint32(dev.SendWQE(2, 4)); got != maxWindow {
		t.Errorf("length of the bind = %#x, want %#x", got, uint32(maxWindow))
	}
}
