// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import "purerdma/provider"

// srq creates a shared receive queue.
func (r *cqRig) srq(cfg provider.SRQConfig) *SRQ {
	r.t.Helper()
	cfg.PD = r.pd
	s, err := r.ctx.CreateSRQ(&cfg)
	if err != nil {
		r.t.Fatalf("Context.CreateSRQ: %v", err)
	}
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Errorf("SRQ.Close: %v", err)
		}
	})
	return s.(*SRQ)
}

// postSRQ posts a receive and returns the slot that the device will use for it.
func (r *cqRig) postSRQ(s *SRQ, id uint64, sg ...provider.SGE) uint16 {
	r.t.Helper()
	if _, err := s.PostRecv([]provider.RecvWR{{ID: id, SGList: sg}}); err != nil {
		r.t.Fatalf("SRQ.PostRecv: %v", err)
	}
	for i, used := range s.list.used {
		if used && s.ids[i] == id {
			return uint16(i)
		}
	}
	r.t.Fatal("postSRQ: the receive is in no slot")
	return 0
}
