// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"encoding/binary"

	"purerdma/abi"
	"purerdma/test/oracle/vector"
)

// These functions return the rings of the last created objects, according to the kernel's responses.

func (r *soft) rxe() bool { return r.driver.ID() == abi.RDMA_DRIVER_RXE }

// answered returns the driver's part of the response to the last command of a kind.
func answered[T any](r *soft, c Command) *T {
	out, _ := vector.Attr(r.Kernel.Last(c).Oracle.Out, abi.UVERBS_ATTR_UHW_OUT)
	full := make([]byte, max(len(out), abi.Size[T]()))
	copy(full, out)
	return abi.View[T](full)
}

func (r *soft) cqRing() *softRing {
	pages := r.Kernel.Pages()
	if r.rxe() {
		return headedRing(pages[answered[abi.RxeCreateCQResp](r, CreateCQ).MI.Offset])
	}
	a := answered[abi.SiwUrespCreateCQ](r, CreateCQ)
	return siwRing(pages[a.CQKey], abi.Size[abi.SiwCQE](), a.NumCQE)
}

func (r *soft) srqRing() *softRing {
	pages := r.Kernel.Pages()
	if r.rxe() {
		return headedRing(pages[answered[abi.RxeCreateSRQResp](r, CreateSRQ).MI.Offset])
	}
	a := answered[abi.SiwUrespCreateSRQ](r, CreateSRQ)
	return siwRing(pages[a.SRQKey], abi.Size[abi.SiwRQE](), a.NumRQE)
}

func (r *soft) qpRings() (sq, rq *softRing) {
	pages := r.Kernel.Pages()
	if r.rxe() {
		a := answered[abi.RxeCreateQPResp](r, CreateQP)
		sq = headedRing(pages[a.SQMI.Offset])
		if a.RQMI.Size > 0 {
			rq = headedRing(pages[a.RQMI.Offset])
		}
		return sq, rq
	}
	a := answered[abi.SiwUrespCreateQP](r, CreateQP)
	return siwRing(pages[a.SQKey], abi.Size[abi.SiwSQE](), a.NumSQE), siwRing(pages[a.RQKey], abi.Size[abi.SiwRQE](), a.NumRQE)
}

// control returns the word behind the entries of a siw CQ that arms the CQ.
func (r *softRing) control() uint32 { return binary.NativeEndian.Uint32(r.mem[r.n*r.size:]) }

// compareIndex checks the consumer state after a poll. For rxe it is an index, for siw a byte in each entry.
func (c *softCQ) compareIndex(r *soft) {
	q := c.ring
	if q.headed {
		if ci := binary.NativeEndian.Uint32(q.mem[ringConsumer:]); ci != r.Rec.CI {
			r.Differ("consumer index %d, want %d", ci, r.Rec.CI)
		}
		return
	}
	for i := q.taken; i != q.taken+uint32(q.n); i++ {
		if ours := q.slot(i)[siwFlags] != 0; ours != (i-q.taken < q.posted-q.taken) {
			r.Differ("entry %d filled = %v, want %v", i%uint32(q.n), ours, !ours)
		}
	}
}
