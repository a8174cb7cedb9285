// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"testing"

	"purerdma/test/connectx/prm"
)

// TestECE negotiates options like the connection manager. It creates a QP with all options of
// the device, and sets the peer's options on the way to RTS.
func TestECE(t *testing.T) {
	h := newHost(t, nil, 1)
	cq := h.cq(4, nil)
	for _, tc := range []struct {
		name           string
		asked, granted uint32
		modify, agreed uint32 // with INIT2RTR_QP
	}{
		{"none", 0, 0, 0, 0},
		{"none of the QP's", 0, 0, 3, 0},
		{"all", prm.ECETrigger, eceOptions, eceOptions, eceOptions},
		{"the peer's", prm.ECETrigger, eceOptions, prm.ECETrigger | 1, prm.ECETrigger | 1},
		{"none of the peer's", prm.ECETrigger, eceOptions, 0x80, 0},
		{"unknown ones", 0x82, 2, 0x83, 2},
		{"not told", prm.ECETrigger, eceOptions, 0, eceOptions},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := h.qpECE(cq, tc.asked, tc.granted)
			options := func(opcode uint16, ece, want uint32) {
				t.Helper()
				out, err := h.command(opcode, prm.QPInLen, nil, func(in []byte) {
					prm.QPIn.QPN.Set(in, uint64(q))
					prm.QPIn.ECE.Set(in, uint64(ece))
					prm.QPC.MTU.Set(prm.QPIn.Context.Of(in), 3)
				})
				if got := uint32(prm.QPOut.ECE.Get(out)); err != nil || got != want {
					t.Errorf("%s = options %#x, %v, want %#x", CommandName(opcode), got, err, want)
				}
			}
			query := func(want uint32) {
				t.Helper()
				out := h.must(prm.OpQueryQP, 16, nil, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(q)) })
				if got := uint32(prm.QPIn.ECE.Get(out)); got != want {
					t.Errorf("QUERY_QP = options %#x, want %#x", got, want)
				}
			}
			query(tc.granted)
			options(prm.OpRst2Init, 0, tc.granted)
			options(prm.OpInit2RTR, tc.modify, tc.agreed)
			options(prm.OpRTR2RTS, 0, tc.agreed)
			query(tc.agreed)
			if err := h.on(prm.Op2Rst, q); err != nil {
				t.Fatalf("h.on(Op2Rst): %v", err)
			}
			query(tc.granted) // state for the next peer
		})
	}
}

// qpECE creates a QP that requests options, and returns its number.
func (h *host) qpECE(cq *testCQ, asked, granted uint32) uint32 {
	h.t.Helper()
	ring := h.alloc(2048)
	out := h.must(prm.OpCreateQP, prm.QPInLen, pages(ring, 2048), func(in []byte) {
		c := prm.QPIn.Context.Of(in)
		prm.QPIn.ECE.Set(in, uint64(asked))
		prm.QPC.PD.Set(c, uint64(h.pd))
		prm.QPC.UARPage.Set(c, uint64(h.uar))
		prm.QPC.SendCQN.Set(c, uint64(cq.n))
		prm.QPC.RecvCQN.Set(c, uint64(cq.n))
		prm.QPC.LogSQSize.Set(c, 4)
		prm.QPC.LogRQSize.Set(c, 4)
		prm.QPC.LogRQStride.Set(c, 2)
		prm.QPC.DBRAddr.Set(c, h.alloc(8))
	})
	if got := uint32(prm.QPOut.ECE.Get(out)); got != granted {
		h.t.Errorf("CREATE_QP = options %#x of %#x, want %#x", got, asked, granted)
	}
	return uint32(prm.QPOut.QPN.Get(out))
}
