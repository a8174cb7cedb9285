// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"encoding/binary"
	"errors"
	"net"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

func TestDC(t *testing.T) {
	r := newSendRig(t, func(k *mlx5test.Kernel) {
		k.Device = func(_ *abi.UverbsExQueryDeviceResp, own *abi.Mlx5QueryDeviceResp, _ *abi.UverbsQueryPortResp) {
			own.DCIStreamsCaps = abi.Mlx5DCIStreamsCaps{MaxLogNumConcurent: 4, MaxLogNumErrored: 3}
		}
	})
	q, err := r.ctx.CreateDCI(&DCIConfig{PD: r.pd, CQ: r.cq, Cap: provider.QPCap{SendWR: 8, SendSGE: 2, Inline: 64}, LogStreams: 4, LogErroredStreams: 3})
	if err != nil {
		t.Fatalf("Context.CreateDCI: %v", err)
	}
	_, dev := r.ready(q)
	if dev.Create.Flags&(abi.MLX5_QP_FLAG_TYPE_DCI|abi.MLX5_QP_FLAG_DCI_STREAM|abi.MLX5_QP_FLAG_SCATTER_CQE) != abi.MLX5_QP_FLAG_TYPE_DCI|abi.MLX5_QP_FLAG_DCI_STREAM ||
		dev.Create.DCIStreams.LogNumConcurent != 4 || dev.Create.DCIStreams.LogNumErrored != 3 {
		t.Errorf("CREATE_QP = %+v, want a DCI with streams", dev.Create)
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
					t.Fatalf("QP.PostDC = %d, %v, want 1, nil", n, err)
				}
				checkWQE(t, dev, uint16(at), tc.want(q.Num(), uint16(at)))
				q.sq.tail = q.sq.head
			}
		})
	}
}

// TestDCRefused checks the errors of invalid DC requests.
func TestDCRefused(t *testing.T) {
	r := newSendRig(t, nil)
	dci := &DCIConfig{PD: r.pd, CQ: r.cq, Cap: provider.QPCap{SendWR: 1, SendSGE: 1}}
	q, err := r.ctx.CreateDCI(dci)
	if err != nil {
		t.Fatalf("Context.CreateDCI: %v", err)
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
			t.Errorf("%s: PostDC = %d, %v, want 0, %v", name, n, err, tc.want)
		}
	}
	if n, err := q.PostSend([]provider.SendWR{good.SendWR}); n != 0 || !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("PostSend to a DCI = %d, %v, want 0, EOPNOTSUPP", n, err)
	}
	if dev.SendCounter() != 0 {
		t.Errorf("SendCounter() = %d after refused requests, want 0", dev.SendCounter())
	}
	max := q.Cap().SendWR
	list := make([]DCWR, max+1)
	for i := range list {
		list[i] = good
	}
	if n, err := q.PostDC(list); n != max || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostDC of too many = %d, %v, want %d, ErrFull", n, err, max)
	}
	rc, _ := r.qp(r.config(provider.RC))
	if n, err := rc.PostDC([]DCWR{good}); n != 0 || !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("PostDC to an RC QP = %d, %v, want 0, EOPNOTSUPP", n, err)
	}
	if err := q.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if n, err := q.PostDC([]DCWR{good}); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("PostDC to a closed DCI = %d, %v, want 0, net.ErrClosed", n, err)
	}
	dci.LogStreams = 1
	if _, err := r.ctx.CreateDCI(dci); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateDCI with streams on a device without them = %v, want EINVAL", err)
	}
	if _, err := r.ctx.CreateDCT(&DCTConfig{PD: r.pd, CQ: r.cq}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateDCT without an SRQ = %v, want EINVAL", err)
	}
}

// TestDCT creates a DC target, which has a number from RTR on.
func TestDCT(t *testing.T) {
	r := newSendRig(t, nil)
	srq, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 4, MaxSGE: 1})
	if err != nil {
		t.Fatalf("Context.CreateSRQ: %v", err)
	}
	defer srq.Close()
	var key uint64
	r.k.Intercept = nil
	q, err := r.ctx.CreateDCT(&DCTConfig{PD: r.pd, CQ: r.cq, SRQ: srq, Key: 0x8877665544332211})
	if err != nil {
		t.Fatalf("Context.CreateDCT: %v", err)
	}
	all := r.k.QPs()
	dev := all[len(all)-1]
	key = binary.NativeEndian.Uint64(abi.Bytes(&dev.Create)[40:])
	if dev.Create.Flags&abi.MLX5_QP_FLAG_TYPE_DCT == 0 || key != 0x8877665544332211 || dev.Create.UIdx != q.index {
		t.Errorf("CREATE_QP = %+v with key %#x, want a DCT with key 0x8877665544332211", dev.Create, key)
	}
	if q.Num() != 0 {
		t.Errorf("Num() = %#x before RTR, want 0", q.Num())
	}
	moveTo(t, q, provider.QPRTR)
	if q.Num() != dev.Num || q.State() != provider.QPRTR {
		t.Errorf("Num() = %#x in %v, want %#x in RTR", q.Num(), q.State(), dev.Num)
	}
	if n, err := q.PostSend(make([]provider.SendWR, 1)); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("QP.PostSend = %d, %v, want 0, EINVAL", n, err)
	}
	if n, err := q.PostRecv(make([]provider.RecvWR, 1)); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("QP.PostRecv = %d, %v, want 0, EINVAL", n, err)
	}
	if err := errors.Join(q.Close(), q.Close()); err != nil {
		t.Errorf("QP.Close twice: %v", err)
	}
	if r.ctx.resources.qp(q.index) != nil {
		t.Errorf("user index %#x is still in use after Close", q.index)
	}
}
