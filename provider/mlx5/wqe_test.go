// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// The bytes below are written down from the PRM. Those of the transports and
// operations that libmlx5 posts are held against it by TestVectors.

// atBlock moves a QP's ring to a block, so that a WQE that begins there wraps.
func atBlock(t testing.TB, r *sendRig, q *QP, dev *mlx5test.QP, block uint32) {
	t.Helper()
	q.sq.cur = block
	r.poison(dev)
}

// everywhere runs a test with WQEs at the start of the ring and so that it ends
// after each of their blocks.
func everywhere(t *testing.T, r *sendRig, q *QP, dev *mlx5test.QP, blocks uint32, wr provider.SendWR, want func(num uint32, cur uint16) []byte) {
	t.Helper()
	n := uint32(len(dev.SQ) / wqebb)
	for at := n - blocks; at <= n; at++ {
		atBlock(t, r, q, dev, at)
		q.sq.demand(0)
		post(t, q, wr)
		checkWQE(t, dev, uint16(at), want(q.Num(), uint16(at)))
		q.sq.tail = q.sq.head
		if got := uint32(dev.SendCounter()); got != at+blocks {
			t.Errorf("counter %d after %d blocks at %d", got, blocks, at)
		}
	}
}

// ctrl is a control segment.
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

// TestSmallFence: the request after an invalidation waits for it, across posts,
// batches that were discarded and requests that were refused; one with a fence of
// its own has that.
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
			t.Errorf("request at %d: flags %#x, want %#x", at, d.Flags, want)
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
		t.Error("opcode 99 was taken")
	}
	post(t, q, provider.SendWR{Opcode: provider.OpSend, InlineData: []byte{1}}) // 6
	check(6, ctrlSmallFence)
	post(t, q, inv, fenced, send) // 7, 9, 10
	check(9, ctrlFence)
	check(10, 0)
	q.BatchBegin() // 11
	for _, err := range []error{q.BatchAdd(&inv), q.BatchWrite(1, 0, send.SGList[0], 0, 0), q.BatchWrite(2, 0, send.SGList[0], 0, 0), q.BatchPost()} {
		if err != nil {
			t.Error(err)
		}
	}
	check(13, ctrlSmallFence)
	check(14, 0)
}

func TestXRC(t *testing.T) {
	r := newSendRig(t, nil)
	cfg := r.config(provider.XRCSend)
	cfg.RecvCQ = nil
	q, dev := r.qp(cfg)
	if dev.Create.RQWQECount != 0 || q.Cap().RecvWR != 0 {
		t.Errorf("%d receives", dev.Create.RQWQECount)
	}
	xrc := join(words(0x901), stale(3))
	remote := words(0x7f00, 0x10, 0xabcd, 0)
	data := words(8, 0x99, 0x11223344, 0x55667788)
	for _, tc := range []struct {
		wr     provider.SendWR
		blocks uint32
		want   func(num uint32, cur uint16) []byte
	}{
		{provider.SendWR{Opcode: provider.OpSendImm, ImmData: 7, SGList: sge(8)}, 1, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0xb, num, 3, 0, 7), xrc, data)
		}},
		{provider.SendWR{Opcode: provider.OpWrite, SGList: sge(8)}, 1, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 8, num, 4, 0, 0), xrc, remote, data)
		}},
		{provider.SendWR{Opcode: provider.OpCompareSwap, CompareAdd: 5, Swap: 6, SGList: sge(64)}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x11, num, 5, 0, 0), xrc, remote, words(0, 6, 0, 5), data)
		}},
		{provider.SendWR{Opcode: provider.OpFetchAdd, CompareAdd: 5, SGList: sge(8)}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x12, num, 5, 0, 0), xrc, remote, words(0, 5), stale(2), data)
		}},
		{provider.SendWR{Opcode: provider.OpWrite, InlineData: bytes.Repeat([]byte{0xab}, 13)}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 8, num, 5, 0, 0), xrc, remote, words(1<<31|13), bytes.Repeat([]byte{0xab}, 13))
		}},
		{provider.SendWR{Opcode: provider.OpLocalInv, InvalidateRKey: 3}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x25, num, 8, 0, 3), words(0x98000000, 0, 0, 1<<29|1<<13|1<<14))
		}},
	} {
		wr := tc.wr
		wr.RemoteSRQN, wr.RemoteAddr, wr.RKey = 0x901, 0x7f00_0000_0010, 0xabcd
		t.Run(wr.Opcode.String(), func(t *testing.T) { everywhere(t, r, q, dev, tc.blocks, wr, tc.want) })
	}
}

// TestXRCDomain makes the other side: a QP that has neither queues nor CQs, and no
// register.
func TestXRCDomain(t *testing.T) {
	for name, legacy := range map[string]bool{"UAR objects": false, "legacy": true} {
		t.Run(name, func(t *testing.T) { testXRCDomain(t, newSendRig(t, func(k *mlx5test.Kernel) { k.LegacyUAR = legacy })) })
	}
}

func testXRCDomain(t *testing.T, r *sendRig) {
	x, err := r.ctx.OpenXRCD(-1, 0)
	if err != nil {
		t.Fatal(err)
	}
	q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.XRCRecv, XRCD: x})
	if err != nil {
		t.Fatal(err)
	}
	if q.Cap() != (provider.QPCap{}) {
		t.Errorf("capacities %+v", q.Cap())
	}
	if err := x.Close(); err == nil {
		t.Error("a domain with a QP was closed")
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.XRCRecv}); err == nil {
		t.Error("XRC_RECV without a domain")
	}
}

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
						b = append(b, 0) // of the Ethernet segment
					} else {
						b = append(b, 0xcc)
					}
				}
				return join(b, data)
			})
		}
	})
}

// TestRawReceives: the device learns of receives when the QP is in RTR.
func TestRawReceives(t *testing.T) {
	r := newSendRig(t, nil)
	p, err := r.ctx.CreateQP(r.config(provider.RawPacket))
	if err != nil {
		t.Fatal(err)
	}
	q := p.(*QP)
	defer q.Close()
	dev := r.k.QPs()[0]
	for round := range 2 {
		moveTo(t, q, provider.QPInit)
		if n, err := q.PostRecv(make([]provider.RecvWR, 3)); n != 3 || err != nil {
			t.Fatalf("PostRecv: %d, %v", n, err)
		}
		if dev.RecvCounter() != 0 {
			t.Errorf("round %d: counter %d in INIT", round, dev.RecvCounter())
		}
		a := provider.QPAttr{State: provider.QPRTR}
		if err := q.Modify(&a, provider.QPAttrState); err != nil {
			t.Fatal(err)
		}
		if dev.RecvCounter() != 3 {
			t.Errorf("round %d: counter %d in RTR, want 3", round, dev.RecvCounter())
		}
		if n, err := q.PostRecv(make([]provider.RecvWR, 1)); n != 1 || err != nil || dev.RecvCounter() != 4 {
			t.Errorf("round %d: PostRecv in RTR: %d, %v, counter %d", round, n, err, dev.RecvCounter())
		}
		if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDC(t *testing.T) {
	r := newSendRig(t, func(k *mlx5test.Kernel) {
		k.Device = func(_ *abi.UverbsExQueryDeviceResp, own *abi.Mlx5QueryDeviceResp, _ *abi.UverbsQueryPortResp) {
			own.DCIStreamsCaps = abi.Mlx5DCIStreamsCaps{MaxLogNumConcurent: 4, MaxLogNumErrored: 3}
		}
	})
	q, err := r.ctx.CreateDCI(&DCIConfig{PD: r.pd, CQ: r.cq, Cap: provider.QPCap{SendWR: 8, SendSGE: 2, Inline: 64}, LogStreams: 4, LogErroredStreams: 3})
	if err != nil {
		t.Fatal(err)
	}
	_, dev := r.ready(q)
	if dev.Create.Flags&(abi.MLX5_QP_FLAG_TYPE_DCI|abi.MLX5_QP_FLAG_DCI_STREAM|abi.MLX5_QP_FLAG_SCATTER_CQE) != abi.MLX5_QP_FLAG_TYPE_DCI|abi.MLX5_QP_FLAG_DCI_STREAM ||
		dev.Create.DCIStreams.LogNumConcurent != 4 || dev.Create.DCIStreams.LogNumErrored != 3 {
		t.Errorf("made with %+v", dev.Create)
	}
	to := r.ah(provider.AHAttr{Port: 1, Global: true, GRH: provider.GlobalRoute{FlowLabel: 1, HopLimit: 9, DGID: provider.GID{15: 7}}}).(*ah)
	av := func(num uint32) []byte {
		b := words(0x01020304, 0x05060708, 0x80000000|num)
		for _, w := range to.av[1:] {
			b = append(b, words(uint32(w>>32), uint32(w))...)
		}
		return join(b[:12], b[16:])
	}
	data := words(8, 0x99, 0x11223344, 0x55667788)
	remote := words(0x7f00, 0x10, 0xabcd, 0)
	for _, tc := range []struct {
		wr     provider.SendWR
		blocks uint32
		want   func(num uint32, cur uint16) []byte
	}{
		{provider.SendWR{Opcode: provider.OpSend, SGList: sge(8)}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0xa, num, 5, 0x12<<8, 0), av(0x77), data)
		}},
		{provider.SendWR{Opcode: provider.OpWrite, SGList: sge(8)}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 8, num, 6, 0x12<<8, 0), av(0x77), remote, data)
		}},
		{provider.SendWR{Opcode: provider.OpFetchAdd, CompareAdd: 9, SGList: sge(8)}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x12, num, 7, 0x12<<8, 0), av(0x77), remote, words(0, 9), stale(2), data)
		}},
		{provider.SendWR{Opcode: provider.OpSend, InlineData: []byte{1, 2, 3}}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0xa, num, 5, 0x12<<8, 0), av(0x77), words(1<<31|3), []byte{1, 2, 3})
		}},
	} {
		wr := DCWR{SendWR: tc.wr, Key: 0x0102030405060708, Stream: 0x12}
		wr.AH, wr.RemoteQPN, wr.RemoteAddr, wr.RKey = holder{to}, 0x77, 0x7f00_0000_0010, 0xabcd
		t.Run(wr.Opcode.String(), func(t *testing.T) {
			n := uint32(len(dev.SQ) / wqebb)
			for at := n - tc.blocks; at <= n; at++ {
				atBlock(t, r, q, dev, at)
				if n, err := q.PostDC([]DCWR{wr}); n != 1 || err != nil {
					t.Fatalf("PostDC: %d, %v", n, err)
				}
				checkWQE(t, dev, uint16(at), tc.want(q.Num(), uint16(at)))
				q.sq.tail = q.sq.head
			}
		})
	}
}

// TestDCRefused holds mistakes with DC against their errors.
func TestDCRefused(t *testing.T) {
	r := newSendRig(t, nil)
	dci := &DCIConfig{PD: r.pd, CQ: r.cq, Cap: provider.QPCap{SendWR: 1, SendSGE: 1}}
	q, err := r.ctx.CreateDCI(dci)
	if err != nil {
		t.Fatal(err)
	}
	q, dev := r.ready(q)
	to := holder{r.ah(provider.AHAttr{Port: 1, Global: true})}
	good := DCWR{SendWR: provider.SendWR{Opcode: provider.OpSend, AH: to, SGList: sge(8)}}
	for name, tc := range map[string]struct {
		change func(*DCWR)
		want   error
	}{
		"NoAH":    {func(w *DCWR) { w.AH = nil }, syscall.EINVAL},
		"Number":  {func(w *DCWR) { w.RemoteQPN = 1 << 24 }, syscall.EINVAL},
		"Bind":    {func(w *DCWR) { w.Opcode = provider.OpBindMW }, syscall.EOPNOTSUPP},
		"ManySGE": {func(w *DCWR) { w.SGList = append(sge(8), sge(8)...) }, syscall.EINVAL},
		"LongSGE": {func(w *DCWR) { w.SGList = sge(1 << 31) }, syscall.EMSGSIZE},
	} {
		wr := good
		tc.change(&wr)
		if n, err := q.PostDC([]DCWR{wr}); n != 0 || !errors.Is(err, tc.want) {
			t.Errorf("%s: %d, %v, want %v", name, n, err, tc.want)
		}
	}
	if n, err := q.PostSend([]provider.SendWR{good.SendWR}); n != 0 || !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("PostSend to a DCI: %d, %v", n, err)
	}
	if dev.SendCounter() != 0 {
		t.Errorf("counter %d after refusals", dev.SendCounter())
	}
	max := q.Cap().SendWR
	list := make([]DCWR, max+1)
	for i := range list {
		list[i] = good
	}
	if n, err := q.PostDC(list); n != max || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostDC of too many: %d, %v", n, err)
	}
	rc, _ := r.qp(r.config(provider.RC))
	if n, err := rc.PostDC([]DCWR{good}); n != 0 || !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("PostDC to RC: %d, %v", n, err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := q.PostDC([]DCWR{good}); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("PostDC to a closed DCI: %d, %v", n, err)
	}
	dci.LogStreams = 1
	if _, err := r.ctx.CreateDCI(dci); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("streams of a device without: %v", err)
	}
	if _, err := r.ctx.CreateDCT(&DCTConfig{PD: r.pd, CQ: r.cq}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("DCT without an SRQ: %v", err)
	}
}

// TestDCT makes a target, which has a number from RTR on.
func TestDCT(t *testing.T) {
	r := newSendRig(t, nil)
	srq, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 4, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer srq.Close()
	var key uint64
	r.k.Intercept = nil
	q, err := r.ctx.CreateDCT(&DCTConfig{PD: r.pd, CQ: r.cq, SRQ: srq, Key: 0x8877665544332211})
	if err != nil {
		t.Fatal(err)
	}
	all := r.k.QPs()
	dev := all[len(all)-1]
	key = binary.NativeEndian.Uint64(abi.Bytes(&dev.Create)[40:])
	if dev.Create.Flags&abi.MLX5_QP_FLAG_TYPE_DCT == 0 || key != 0x8877665544332211 || dev.Create.UIdx != q.index {
		t.Errorf("made with %+v, key %#x", dev.Create, key)
	}
	if q.Num() != 0 {
		t.Errorf("number %#x before RTR", q.Num())
	}
	moveTo(t, q, provider.QPRTR)
	if q.Num() != dev.Num || q.State() != provider.QPRTR {
		t.Errorf("number %#x in %v, want %#x", q.Num(), q.State(), dev.Num)
	}
	if n, err := q.PostSend(make([]provider.SendWR, 1)); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("PostSend: %d, %v", n, err)
	}
	if n, err := q.PostRecv(make([]provider.RecvWR, 1)); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("PostRecv: %d, %v", n, err)
	}
	if err := errors.Join(q.Close(), q.Close()); err != nil {
		t.Error(err)
	}
	if r.ctx.resources.qp(q.index) != nil {
		t.Error("the user index is not free")
	}
}

// TestMost posts what is just not too much.
func TestMost(t *testing.T) {
	r := newSendRig(t, nil)
	cfg := r.config(provider.RawPacket)
	cfg.MaxLSOHeader = 54
	raw, _ := r.qp(cfg)
	post(t, raw, provider.SendWR{Opcode: provider.OpLSO, Header: make([]byte, 54), MSS: 1400, SGList: sge(raw.sq.packets.maxLSO)})
	rc, dev := r.qp(r.config(provider.RC))
	post(t, rc, provider.SendWR{Opcode: provider.OpBindMW, Bind: &provider.MWBindInfo{Type: provider.MWType1, Length: maxWindow}})
	if got := binary.BigEndian.Uint32(dev.SendWQE(2, 4)); got != maxWindow {
		t.Errorf("bound %#x bytes", got)
	}
}
