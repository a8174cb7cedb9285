// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// dmaBufHalf is the number of registered bytes of each dma-buf, which are its second half.
const dmaBufHalf = 32 << 10

// Offsets in that half.
const (
	dmaBufSource = 0
	dmaBufSink   = 8 << 10
	dmaBufRemote = 16 << 10 // read by the peer
)

// dmaBufSide is one end of a connection, whose messages are in dma-buf memory.
type dmaBufSide struct {
	*end
	mr  *verbs.MR
	mem []byte // the memory of mr in the program's own mapping
}

// newDMABufSide creates a QP and registers a dma-buf on one PD, in either order.
func newDMABufSide(t *testing.T, h *verbs.Host, host vmtest.Host, qpFirst bool, cfg verbs.QPConfig) *dmaBufSide {
	t.Helper()
	s := &dmaBufSide{end: newEnd(t, h, host, verbs.QPCap{})}
	pd := allocPD(t, s.dev)
	createQP := func() {
		cfg.SendCQ, cfg.RecvCQ = s.cq, s.cq
		qp, err := pd.CreateQP(cfg)
		if err != nil {
			t.Fatalf("PD.CreateQP: %v", err)
		}
		closer(t, qp)
		s.qp = qp
	}
	if qpFirst {
		createQP()
	}
	f, mem := vmtest.DMABuf(t, 2*dmaBufHalf)
	mr, err := pd.RegDMABuf(int(f.Fd()), dmaBufHalf, dmaBufHalf, 1<<40, everything)
	if err != nil {
		t.Fatalf("PD.RegDMABuf: %v", err)
	}
	closer(t, mr)
	s.mr, s.mem = mr, mem[dmaBufHalf:]
	if !qpFirst {
		createQP()
	}
	return s
}

// dmaBufSizes returns the sizes of the messages. They are near the data sizes that a ConnectX
// may put into completions (32 and 64 bytes) and near the end of a page. In the long form they
// are all sizes up to 4096.
func dmaBufSizes() (sizes []int) {
	for n := 1; n <= 4096; n++ {
		if n <= 130 || n >= 4090 || n&(n-1) <= 1 || longtest.Enabled() {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

// exchange transfers a message of n bytes from l to r by SEND, WRITE and READ, each with
// different bytes.
func (l *dmaBufSide) exchange(t *testing.T, r *dmaBufSide, n int) {
	t.Helper()
	for i, op := range []verbs.SendOpcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead} {
		wr := verbs.SendWR{ID: 1, Opcode: op, Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.mr.Slice(dmaBufSource, n)}}
		want, sink := fill(l.mem[dmaBufSource:][:n], byte(n+100*i)), r.mem[dmaBufSink:]
		switch op {
		case verbs.OpSend:
			r.recv(t, verbs.RecvWR{ID: 2, SGList: []verbs.SGE{r.mr.Slice(dmaBufSink, 4096)}})
		case verbs.OpWrite:
			wr.RemoteAddr, wr.RKey = r.mr.Addr()+dmaBufSink, r.mr.RKey()
		case verbs.OpRead:
			wr.RemoteAddr, wr.RKey = r.mr.Addr()+dmaBufRemote, r.mr.RKey()
			wr.SGList[0] = l.mr.Slice(dmaBufSink, n)
			want, sink = fill(r.mem[dmaBufRemote:][:n], byte(n+100*i)), l.mem[dmaBufSink:]
		}
		const beyond = 0xee
		clear(sink[:n])
		sink[n] = beyond
		l.send(t, wr)
		l.ok(t, 1)
		if op == verbs.OpSend {
			if wc := r.ok(t, 1)[2]; wc.ByteLen != uint32(n) {
				t.Fatalf("SEND of %d bytes: completion of the receive = %+v, want the same length", n, wc)
			}
		}
		if !bytes.Equal(sink[:n], want) {
			t.Fatalf("%v of %d bytes stored % x, want % x", op, n, sink[:min(n, 16)], want[:min(n, 16)])
		}
		if sink[n] != beyond {
			t.Fatalf("%v of %d bytes wrote one byte more", op, n)
		}
	}
}

// TestVMDMABuf transfers messages of all operations in both directions between dma-bufs. A poll
// cannot copy the data of a completion there, because the library does not know the memory's
// address. The device must therefore not put any data into completions.
func TestVMDMABuf(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		for _, qpFirst := range []bool{false, true} {
			for _, signalAll := range []bool{false, true} {
				t.Run(fmt.Sprintf("QP first %v, SignalAll %v", qpFirst, signalAll), func(t *testing.T) {
					cfg := verbs.QPConfig{SignalAll: signalAll, NoScatterToCQE: qpFirst}
					a, b := newDMABufSide(t, rt.h, rt.a, qpFirst, cfg), newDMABufSide(t, rt.h, rt.b, qpFirst, cfg)
					connect(t, a.end, b.end)
					for _, n := range dmaBufSizes() {
						a.exchange(t, b, n)
						b.exchange(t, a, n)
					}
				})
			}
		}
	})
}

// TestVMDMABufBesideScatter checks that a dma-buf cannot be registered on a PD that has a QP
// with data in its completions.
func TestVMDMABufBesideScatter(t *testing.T) {
	rt := vmWire(t)
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	f, _ := vmtest.DMABuf(t, 4096)
	if mr, err := e.pd.RegDMABuf(int(f.Fd()), 0, 4096, 0, everything); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("RegDMABuf = %v, %v, want EBUSY", mr, err)
	}
	mr, err := e.pd.RegDMABuf(int(f.Fd()), 0, 4096, 0, verbs.RemoteRead)
	if err != nil {
		t.Fatalf("RegDMABuf without LocalWrite: %v", err)
	}
	closer(t, mr)
}
