// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"io"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

// liar is a kernel whose responses to the creation of objects are changed.
type liar struct {
	uverbs.Kernel
	change []byte // one byte for each byte of the responses, in turn
	next   int
}

func (k *liar) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return lyingTransport{t, k}, err
}

type lyingTransport struct {
	uverbs.Transport
	k *liar
}

func (t lyingTransport) Ioctl(req *uverbs.Request) error {
	err := t.Transport.Ioctl(req)
	creates := req.Object != abi.UVERBS_OBJECT_DEVICE || req.Method == abi.UVERBS_METHOD_INVOKE_WRITE
	if err != nil || !creates {
		return err
	}
	for i := range req.Attrs {
		if a := &req.Attrs[i]; a.Kind == uverbs.AttrOut {
			t.k.lie(a.Buf)
		}
	}
	return nil
}

// lie changes a response with the remaining bytes.
func (k *liar) lie(b []byte) {
	for i := range b {
		if k.next == len(k.change) {
			return
		}
		b[i] ^= k.change[k.next]
		k.next++
	}
}

// flip changes the bytes of a response.
func flip(b, by []byte) {
	for i := range min(len(b), len(by)) {
		b[i] ^= by[i]
	}
}

// FuzzOpen opens a device on a kernel with arbitrary responses. It creates, uses and destroys
// one object of each kind. Each step may fail. Created objects must be closable.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(nil), []byte(nil), []byte(nil), []byte(nil))
	whole := func(n int) []byte { b := make([]byte, n); b[n-1] = 1; return b }
	f.Add(whole(abi.Size[abi.Mlx5AllocUcontextResp]()), whole(abi.Size[abi.UverbsExQueryDeviceResp]()), whole(abi.Size[abi.Mlx5QueryDeviceResp]()), whole(4096))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff}, []byte{1}, []byte{0xff}, []byte{0, 0, 0, 0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, context, device, own, objects []byte) {
		k := mlx5test.New("mlx5_0")
		k.Context = func(_ *abi.Mlx5AllocUcontextReqV2, resp *abi.Mlx5AllocUcontextResp) { flip(abi.Bytes(resp), context) }
		k.Device = func(attr *abi.UverbsExQueryDeviceResp, mlx5 *abi.Mlx5QueryDeviceResp, port *abi.UverbsQueryPortResp) {
			flip(abi.Bytes(attr), device)
			flip(abi.Bytes(mlx5), own)
			flip(abi.Bytes(port), own)
		}
		infos, err := k.Devices()
		if err != nil {
			t.Fatalf("Kernel.Devices: %v", err)
		}
		file, err := uverbs.Open(&liar{Kernel: k, change: objects}, infos[0])
		if err != nil {
			t.Fatalf("uverbs.Open: %v", err)
		}
		ctx, err := Driver{}.Open(file)
		if err == nil {
			useAll(ctx.(*Context))
			err = errors.Join(file.Close(), ctx.(io.Closer).Close())
		} else {
			err = file.Close()
		}
		if err != nil {
			t.Errorf("closing the context: %v", err)
		}
		if n := k.Opened(); n != 0 {
			t.Errorf("Opened() = %d, want 0", n)
		}
	})
}

// useAll creates, uses and closes objects as far as possible.
func useAll(c *Context) {
	c.PacketCaps()
	pd, err := c.AllocPD()
	if err != nil {
		return
	}
	defer pd.Close()
	cq, err := c.CreateCQ(&provider.CQConfig{Entries: 16})
	if err != nil {
		return
	}
	defer cq.Close()
	_ = cq.Arm(false)
	_ = cq.Resize(64)
	ah, err := c.CreateAH(&provider.AHConfig{PD: pd, Attr: provider.AHAttr{Global: true, Port: 1, GRH: provider.GlobalRoute{DGID: provider.GID{15: 1}}}})
	if err == nil {
		defer ah.Close()
	}
	one := []provider.SGE{{Addr: 4096, Length: 64, LKey: 1}}
	srq, err := c.CreateSRQ(&provider.SRQConfig{PD: pd, MaxWR: 8, MaxSGE: 2})
	if err == nil {
		defer srq.Close()
		srq.PostRecv([]provider.RecvWR{{ID: 1, SGList: one}})
		srq.Query()
	}
	for _, cfg := range []provider.QPConfig{
		{Type: provider.RC, Cap: provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 2, RecvSGE: 2, Inline: 64}},
		{Type: provider.UD, Cap: provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 2, RecvSGE: 2}},
		{Type: provider.RawPacket, Cap: provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 2, RecvSGE: 2}, MaxLSOHeader: 64},
	} {
		cfg.PD, cfg.SendCQ, cfg.RecvCQ = pd, cq, cq
		if qp, err := c.CreateQP(&cfg); err == nil {
			useQP(qp, one)
		}
	}
	if dci, err := c.CreateDCI(&DCIConfig{PD: pd, CQ: cq, Cap: provider.QPCap{SendWR: 4, SendSGE: 1}, LogStreams: 2}); err == nil {
		dci.Close()
	}
	cq.Poll(make([]provider.WC, 8))
}

// useQP moves a QP to RTS and posts as many requests as its capabilities allow.
func useQP(qp provider.QP, one []provider.SGE) {
	defer qp.Close()
	for _, s := range []provider.QPState{provider.QPInit, provider.QPRTR, provider.QPRTS} {
		if qp.Modify(&provider.QPAttr{State: s, Port: 1}, provider.QPAttrState) != nil {
			return
		}
	}
	qp.Query()
	caps := qp.Cap()
	many := make([]provider.SGE, min(64, max(0, caps.SendSGE)))
	for _, wr := range []provider.SendWR{
		{ID: 1, Opcode: provider.OpSend, Flags: provider.SendSignaled, SGList: one},
		{ID: 2, Opcode: provider.OpWrite, InlineData: make([]byte, min(4096, max(0, caps.Inline)))},
		{ID: 3, Opcode: provider.OpRead, SGList: one},
		{ID: 4, Opcode: provider.OpSend, SGList: many},
		{ID: 5, Opcode: provider.OpBindMW, Bind: &provider.MWBindInfo{Type: provider.MWType2, Length: 8}},
		{ID: 6, Opcode: provider.OpLSO, Header: make([]byte, 60), MSS: 100, SGList: one},
	} {
		for range 3 {
			qp.PostSend([]provider.SendWR{wr})
		}
	}
	qp.PostRecv([]provider.RecvWR{{ID: 7, SGList: make([]provider.SGE, min(64, max(0, caps.RecvSGE)))}})
	_ = qp.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState)
}
