// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// sge returns an element of n bytes.
func sge(n uint32) []provider.SGE {
	return []provider.SGE{{Addr: 0x1122334455667788, Length: n, LKey: 0x99}}
}

// TestSendRefused checks the errors of requests that do not fit. The device must find no part
// of them in the ring, and the queue must accept the next request.
func TestSendRefused(t *testing.T) {
	r := newSendRig(t, wantsHeaders)
	long := make([]provider.SGE, 5)
	ah := r.ah(provider.AHAttr{Port: 1, Global: true})
	for _, tc := range []struct {
		name string
		typ  provider.QPType
		wr   provider.SendWR
		want error
	}{
		{"UnknownOpcode", provider.RC, provider.SendWR{Opcode: 99}, syscall.EOPNOTSUPP},
		{"OpcodeOf32Bits", provider.RC, provider.SendWR{Opcode: 1<<31 | provider.OpSend}, syscall.EOPNOTSUPP},
		{"ReadInv", provider.RC, provider.SendWR{Opcode: provider.OpReadInv}, syscall.EOPNOTSUPP},
		{"Flush", provider.RC, provider.SendWR{Opcode: provider.OpFlush}, syscall.EOPNOTSUPP},
		{"AtomicWrite", provider.RC, provider.SendWR{Opcode: provider.OpAtomicWrite, InlineData: make([]byte, 8)}, syscall.EOPNOTSUPP},
		{"LSO", provider.RC, provider.SendWR{Opcode: provider.OpLSO}, syscall.EOPNOTSUPP},
		{"ManySGE", provider.RC, provider.SendWR{Opcode: provider.OpSend, SGList: long}, syscall.EINVAL},
		{"LongSGE", provider.RC, provider.SendWR{Opcode: provider.OpSend, SGList: sge(1 << 31)}, syscall.EMSGSIZE},
		{"LongSecondSGE", provider.RC, provider.SendWR{Opcode: provider.OpSend, SGList: append(sge(1), sge(1<<32-1)...)}, syscall.EMSGSIZE},
		{"LongInline", provider.RC, provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 253)}, syscall.EINVAL},
		{"InlineRead", provider.RC, provider.SendWR{Opcode: provider.OpRead, InlineData: make([]byte, 8)}, syscall.EINVAL},
		{"InlineAtomic", provider.RC, provider.SendWR{Opcode: provider.OpFetchAdd, InlineData: make([]byte, 8)}, syscall.EINVAL},
		{"ShortAtomic", provider.RC, provider.SendWR{Opcode: provider.OpFetchAdd, SGList: sge(4)}, syscall.EINVAL},
		{"TwoOldValues", provider.RC, provider.SendWR{Opcode: provider.OpFetchAdd, SGList: append(sge(8), sge(8)...)}, syscall.EINVAL},
		{"UnalignedAtomic", provider.RC, provider.SendWR{Opcode: provider.OpCompareSwap, RemoteAddr: 4, SGList: sge(8)}, syscall.EINVAL},
		{"BindNothing", provider.RC, provider.SendWR{Opcode: provider.OpBindMW}, syscall.EINVAL},
		{"BindNoType", provider.RC, provider.SendWR{Opcode: provider.OpBindMW, Bind: &provider.MWBindInfo{}}, syscall.EINVAL},
		{"BindMuch", provider.RC, provider.SendWR{Opcode: provider.OpBindMW, Bind: &provider.MWBindInfo{Type: provider.MWType2, Length: 1<<31 + 1}}, syscall.EOPNOTSUPP},
		{"ReadOfUC", provider.UC, provider.SendWR{Opcode: provider.OpRead, SGList: sge(8)}, syscall.EOPNOTSUPP},
		{"AtomicOfUC", provider.UC, provider.SendWR{Opcode: provider.OpFetchAdd, SGList: sge(8)}, syscall.EOPNOTSUPP},
		{"WriteOfUD", provider.UD, provider.SendWR{Opcode: provider.OpWrite, AH: holder{ah}}, syscall.EOPNOTSUPP},
		{"NoAH", provider.UD, provider.SendWR{Opcode: provider.OpSend}, syscall.EINVAL},
		{"ClosedAH", provider.UD, provider.SendWR{Opcode: provider.OpSend, AH: holder{}}, net.ErrClosed},
		{"OtherAH", provider.UD, provider.SendWR{Opcode: provider.OpSend, AH: holder{otherAH{}}}, syscall.EINVAL},
		{"QPNumber", provider.UD, provider.SendWR{Opcode: provider.OpSend, AH: holder{ah}, RemoteQPN: 1 << 24}, syscall.EINVAL},
		{"SRQNumber", provider.XRCSend, provider.SendWR{Opcode: provider.OpSend, RemoteSRQN: 1 << 24}, syscall.EINVAL},
		{"NoPacket", provider.RawPacket, provider.SendWR{Opcode: provider.OpSend}, syscall.EINVAL},
		{"ShortPacket", provider.RawPacket, provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 17)}, syscall.EINVAL},
		{"NoHeader", provider.RawPacket, provider.SendWR{Opcode: provider.OpSend, SGList: sge(64)}, syscall.EINVAL},
		{"LongHeader", provider.RawPacket, provider.SendWR{Opcode: provider.OpSend, SGList: sge(64), Header: make([]byte, 19)}, syscall.EINVAL},
		{"LSOLongHeader", provider.RawPacket, provider.SendWR{Opcode: provider.OpLSO, SGList: sge(64), Header: make([]byte, 61), MSS: 1}, syscall.EINVAL},
		{"LSONoHeader", provider.RawPacket, provider.SendWR{Opcode: provider.OpLSO, SGList: sge(64), MSS: 1}, syscall.EINVAL},
		{"LSONoMSS", provider.RawPacket, provider.SendWR{Opcode: provider.OpLSO, SGList: sge(64), Header: make([]byte, 54)}, syscall.EINVAL},
		{"LSOMuch", provider.RawPacket, provider.SendWR{Opcode: provider.OpLSO, SGList: sge(1 << 20), Header: make([]byte, 54), MSS: 1}, syscall.EINVAL},
		{"LSOInline", provider.RawPacket, provider.SendWR{Opcode: provider.OpLSO, InlineData: make([]byte, 54), Header: make([]byte, 54), MSS: 1}, syscall.EINVAL},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := r.config(tc.typ)
			cfg.MaxLSOHeader = 60
			q, dev := r.qp(cfg)
			if n, err := q.PostSend([]provider.SendWR{tc.wr}); n != 0 || !errors.Is(err, tc.want) {
				t.Errorf("PostSend = %d, %v, want 0, %v", n, err, tc.want)
			}
			good := goodRequest(tc.typ, ah)
			list := []provider.SendWR{good, tc.wr, good}
			r.poison(dev)
			if n, err := q.PostSend(list); n != 1 || !errors.Is(err, tc.want) {
				t.Errorf("PostSend after a valid request = %d, %v, want 1, %v", n, err, tc.want)
			}
			// The register got the valid request, either its first bytes or the whole request.
			if _, _, b := r.rung(); !bytes.HasPrefix(dev.SendWQE(0, len(b)), b) {
				t.Errorf("register = % x, want the request % x", b, dev.SendWQE(0, len(b)))
			}
			n := dev.SendCounter()
			q.BatchBegin()
			if err := q.BatchAdd(&tc.wr); !errors.Is(err, tc.want) {
				t.Errorf("BatchAdd = %v, want %v", err, tc.want)
			}
			if err := q.BatchAdd(&good); err != nil {
				t.Errorf("BatchAdd of a valid request: %v", err)
			}
			if err := q.BatchPost(); err != nil || dev.SendCounter() <= n {
				t.Errorf("BatchPost = %v with counter %d, want nil and a larger counter", err, dev.SendCounter())
			}
		})
	}
}

// goodRequest returns a valid request for a QP type.
func goodRequest(typ provider.QPType, ah provider.AH) provider.SendWR {
	wr := provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 60)}
	switch typ {
	case provider.UD:
		wr.AH, wr.RemoteQPN = holder{ah}, maxNum
	case provider.XRCSend:
		wr.RemoteSRQN = maxNum
	}
	return wr
}

// holder replaces a verbs.AH.
type holder struct{ ah provider.AH }

func (h holder) ProviderAH() provider.AH { return h.ah }

type otherAH struct{}

func (otherAH) Close() error { return nil }

func (r *sendRig) ah(a provider.AHAttr) provider.AH {
	r.t.Helper()
	ah, err := r.ctx.CreateAH(&provider.AHConfig{PD: r.pd, Attr: a})
	if err != nil {
		r.t.Fatalf("Context.CreateAH: %v", err)
	}
	r.t.Cleanup(func() { ah.Close() })
	return ah
}

// TestSendStates checks that requests are accepted in the states in which the device reads
// them. In the other states they must be refused before they are in the ring.
func TestSendStates(t *testing.T) {
	r := newSendRig(t, nil)
	q, dev := r.qp(r.config(provider.RC))
	wr := []provider.SendWR{{Opcode: provider.OpSend, SGList: sge(8)}}
	for s := provider.QPReset; s.Valid(); s++ {
		q.SetState(s)
		before := dev.SendCounter()
		n, err := q.PostSend(wr)
		q.BatchBegin()
		q.BatchAdd(&wr[0])
		berr := q.BatchPost()
		var se *provider.QPStateError
		switch s {
		case provider.QPRTS, provider.QPSQD, provider.QPSQE, provider.QPErr:
			if n != 1 || err != nil || berr != nil || dev.SendCounter() != before+2 {
				t.Errorf("PostSend, BatchPost in %v = %d, %v, %v, want 1, nil, nil", s, n, err, berr)
			}
		default:
			if n != 0 || !errors.As(err, &se) || se.State != s || !errors.As(berr, &se) || dev.SendCounter() != before {
				t.Errorf("PostSend, BatchPost in %v = %d, %v, %v, want 0 and QPStateErrors", s, n, err, berr)
			}
		}
	}
}

// TestFull checks that the first requests of a list are accepted up to the capacity of the
// queue.
func TestFull(t *testing.T) {
	r := newSendRig(t, nil)
	q, dev := r.qp(r.config(provider.RC))
	max := q.Cap().SendWR
	wrs := make([]provider.SendWR, max+3)
	for i := range wrs {
		wrs[i] = provider.SendWR{Opcode: provider.OpSend, SGList: sge(8)}
	}
	if n, err := q.PostSend(wrs); n != max || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostSend = %d, %v, want %d, ErrFull", n, err, max)
	}
	if n, err := q.PostSend(wrs[:1]); n != 0 || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostSend to a full queue = %d, %v, want 0, ErrFull", n, err)
	}
	q.BatchBegin()
	for _, err := range []error{
		q.BatchAdd(&wrs[0]), q.BatchWrite(1, wrs[0].SGList[0], anywhere, 0), q.BatchSend(1, wrs[0].SGList[0], 0),
		q.BatchSendInline(1, nil, 0), q.BatchWriteInline(1, nil, anywhere, 0),
	} {
		if !errors.Is(err, provider.ErrFull) {
			t.Errorf("batch in a full queue = %v, want ErrFull", err)
		}
	}
	q.BatchDiscard()
	if got := dev.SendCounter(); int(got) != max {
		t.Errorf("SendCounter() = %d, want %d", got, max)
	}
	done := q.sq.outstanding(4)
	if done == nil || done.id != 0 {
		t.Fatalf("outstanding(4) = %+v, want the request with ID 0", done)
	}
	q.sq.free(done)
	if n, err := q.PostSend(wrs); n != 5 || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostSend after 5 completions = %d, %v, want 5, ErrFull", n, err)
	}
	// Completions of requests that are not outstanding change nothing.
	for _, i := range []uint16{0, 4, 127, 1<<16 - 1} {
		if done := q.sq.outstanding(i); done != nil {
			t.Errorf("outstanding(%d) = %+v, want nil for a request that has completed or was not posted", i, done)
		}
	}
}

// TestReset checks that a reset empties the queue.
func TestReset(t *testing.T) {
	r := newSendRig(t, nil)
	q, dev := r.qp(r.config(provider.RC))
	post(t, q, provider.SendWR{Opcode: provider.OpSend}, provider.SendWR{Opcode: provider.OpLocalInv})
	if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
		t.Fatalf("QP.Modify: %v", err)
	}
	if dev.SendCounter() != 0 {
		t.Errorf("SendCounter() = %d after RESET, want 0", dev.SendCounter())
	}
	moveTo(t, q, provider.QPRTS)
	r.poison(dev)
	post(t, q, provider.SendWR{Opcode: provider.OpSend, SGList: sge(8)})
	if d := dev.SendAt(0); d.Index != 0 || d.Flags != 0 || dev.SendCounter() != 1 {
		t.Errorf("first request after RESET = %+v with counter %d, want index 0 and counter 1", d, dev.SendCounter())
	}
}

// TestModifyFails checks that a QP whose Modify failed still accepts requests.
func TestModifyFails(t *testing.T) {
	r := newSendRig(t, nil)
	q, _ := r.qp(r.config(provider.RC))
	r.k.Intercept = nil
	for _, a := range []provider.QPAttr{{State: provider.QPInit}, {State: provider.QPRTR}} {
		if err := q.Modify(&a, provider.QPAttrState); err == nil {
			t.Fatalf("Modify from RTS to %v succeeded", a.State)
		}
		post(t, q, provider.SendWR{Opcode: provider.OpSend, SGList: sge(8)})
	}
}

// TestClosed checks that a closed QP, and a QP of a closed file, refuse everything.
func TestClosed(t *testing.T) {
	r := newSendRig(t, nil)
	closedQP, _ := r.qp(r.config(provider.RC))
	if err := errors.Join(closedQP.Close(), closedQP.Close()); err != nil {
		t.Fatalf("QP.Close twice: %v", err)
	}
	gone, _ := r.qp(r.config(provider.RC))
	r.ctx.file.Close()
	wr := provider.SendWR{Opcode: provider.OpSend, SGList: sge(8)}
	for i, q := range []*QP{closedQP, gone} {
		if n, err := q.PostSend([]provider.SendWR{wr}); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%d: QP.PostSend = %d, %v, want 0, net.ErrClosed", i, n, err)
		}
		if n, err := q.PostRecv([]provider.RecvWR{{}}); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%d: QP.PostRecv = %d, %v, want 0, net.ErrClosed", i, n, err)
		}
		q.BatchBegin()
		q.BatchAdd(&wr)
		q.BatchWrite(1, wr.SGList[0], anywhere, 0)
		q.BatchSendInline(1, []byte{1}, 0)
		if err := q.BatchPost(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%d: QP.BatchPost() = %v, want net.ErrClosed", i, err)
		}
		if err := q.Modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%d: QP.Modify = %v, want net.ErrClosed", i, err)
		}
		if _, err := q.Query(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%d: QP.Query: error = %v, want net.ErrClosed", i, err)
		}
	}
}

// TestPostDuringClose posts to QPs in RESET, which another goroutine closes at the same time. Each error names the
// state, or reports that the QP is closed. The race detector checks the reads of the refused post. The wait before
// Close synchronizes with nothing, so the detector compares both.
func TestPostDuringClose(t *testing.T) {
	r := newSendRig(t, nil)
	wr := []provider.SendWR{{Opcode: provider.OpSend, SGList: sge(8)}}
	for range 20 {
		q, _ := r.qp(r.config(provider.RC))
		if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := q.PostSend(wr)
			done <- err
		}()
		time.Sleep(time.Millisecond)
		if err := q.Close(); err != nil {
			t.Errorf("QP.Close: %v", err)
		}
		err := <-done
		if _, ok := errors.AsType[*provider.QPStateError](err); !ok && !errors.Is(err, net.ErrClosed) {
			t.Errorf("QP.PostSend beside QP.Close: %v, want a *provider.QPStateError or net.ErrClosed", err)
		}
	}
}

// TestNoQueue checks the errors of a QP without a send queue and without a receive queue.
func TestNoQueue(t *testing.T) {
	r := newSendRig(t, nil)
	cfg := r.config(provider.RC)
	cfg.Cap.SendWR, cfg.Cap.RecvWR = 0, 0
	q, _ := r.qp(cfg)
	if n, err := q.PostSend(make([]provider.SendWR, 1)); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("QP.PostSend = %d, %v, want 0, EINVAL", n, err)
	}
	if n, err := q.PostRecv(make([]provider.RecvWR, 1)); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("QP.PostRecv = %d, %v, want 0, EINVAL", n, err)
	}
	q.BatchBegin()
	if err := q.BatchAdd(&provider.SendWR{Opcode: provider.OpSend}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("QP.BatchAdd = %v, want EINVAL", err)
	}
	q.BatchDiscard()
}

// TestNoAtomics checks a device without atomics.
func TestNoAtomics(t *testing.T) {
	r := newSendRig(t, func(k *mlx5test.Kernel) {
		k.Device = func(attr *abi.UverbsExQueryDeviceResp, _ *abi.Mlx5QueryDeviceResp, _ *abi.UverbsQueryPortResp) {
			attr.Base.AtomicCap = 0
		}
	})
	q, _ := r.qp(r.config(provider.RC))
	if _, err := q.PostSend([]provider.SendWR{{Opcode: provider.OpFetchAdd, SGList: sge(8)}}); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("PostSend of FETCH_ADD = %v, want EOPNOTSUPP", err)
	}
	post(t, q, provider.SendWR{Opcode: provider.OpRead, SGList: sge(8)})
}

// TestLongest posts the longest request. The size of a WQE has 6 bits, and a slot of 1,024
// bytes is one segment too long for them.
func TestLongest(t *testing.T) {
	r := newSendRig(t, nil)
	cfg := r.config(provider.UD)
	cfg.Cap.Inline = 956
	q, dev := r.qp(cfg)
	if q.Cap().Inline != 956 {
		t.Fatalf("Cap().Inline = %d, want 956", q.Cap().Inline)
	}
	wr := provider.SendWR{Opcode: provider.OpSend, AH: holder{r.ah(provider.AHAttr{Port: 1, Global: true})}, InlineData: make([]byte, 941)}
	if n, err := q.PostSend([]provider.SendWR{wr}); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("PostSend of 64 segments = %d, %v, want 0, EINVAL", n, err)
	}
	wr.InlineData = wr.InlineData[:940]
	post(t, q, wr)
	if d := dev.SendAt(0); len(d.Bytes) != 63*segment || dev.SendCounter() != 16 {
		t.Errorf("request of %d bytes with counter %d, want %d and 16", len(d.Bytes), dev.SendCounter(), 63*segment)
	}
}
