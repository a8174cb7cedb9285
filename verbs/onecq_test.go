// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"

	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestOneCQ makes QPs with one CQ for sends and receives. It has room for both, also if a QP uses an SRQ, and
// the QP closes it.
func TestOneCQ(t *testing.T) {
	for name, host := range map[string]*verbs.Host{
		"rxe0":   {Kernel: uverbstest.New("rxe0"), Drivers: verbs.DefaultHost().Drivers},
		"mlx5_0": {Kernel: inprocess.New(inprocess.Config{}, "mlx5_0"), Drivers: verbs.DefaultHost().Drivers},
	} {
		t.Run(name, func(t *testing.T) { testOneCQ(t, host, name) })
	}
}

func testOneCQ(t *testing.T, host *verbs.Host, name string) {
	_, pd := openPD(t, host, name)
	srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 300})
	if err != nil {
		t.Fatalf("PD.CreateSRQ: %v", err)
	}
	closer(t, srq)
	for _, cfg := range []verbs.QPConfig{{}, {Cap: verbs.QPCap{SendWR: 50, RecvWR: 200}}, {SRQ: srq}} {
		cfg.OneCQ = true
		qp, err := pd.CreateQP(cfg)
		if err != nil {
			t.Fatalf("PD.CreateQP(%+v): %v", cfg, err)
		}
		cq, room := qp.SendCQ(), qp.Cap().SendWR+qp.Cap().RecvWR
		if cfg.SRQ != nil {
			room = qp.Cap().SendWR + srq.Attr().MaxWR
		}
		if cq != qp.RecvCQ() || cq.Entries() < room {
			t.Errorf("CreateQP(%+v) made CQs %p of %d entries and %p, want one with at least %d", cfg, cq, cq.Entries(), qp.RecvCQ(), room)
		}
		if err := qp.Close(); err != nil {
			t.Errorf("QP.Close() = %v", err)
		}
		if _, err := cq.Poll(make([]verbs.WC, 1)); err == nil {
			t.Error("CQ.Poll() after the Close of its QP = nil, want an error")
		}
	}
}
