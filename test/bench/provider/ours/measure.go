// SPDX-License-Identifier: Apache-2.0

package main

import (
	"purerdma/provider"
	"purerdma/verbs"
)

//go:noinline
func measurePost(qp provider.QP, wrs []provider.SendWR, calls int) {
	for range calls {
		if _, err := qp.PostSend(wrs); err != nil {
			panic(err)
		}
	}
}

//go:noinline
func measureRecv(qp provider.QP, wrs []provider.RecvWR, calls int) {
	for range calls {
		if _, err := qp.PostRecv(wrs); err != nil {
			panic(err)
		}
	}
}

//go:noinline
func measureVerbs(qp *verbs.QP, wrs []verbs.SendWR, calls int) {
	for range calls {
		if _, err := qp.PostSend(wrs); err != nil {
			panic(err)
		}
	}
}

//go:noinline
func measurePoll(cq provider.CQ, wcs []provider.WC, round int) {
	for got := 0; got < round; {
		n, err := cq.Poll(wcs)
		if n == 0 || err != nil || wcs[0].Status != provider.WCSuccess {
			panic("nothing to poll")
		}
		got += n
	}
}

//go:noinline
func measureVerbsPoll(cq *verbs.CQ, wcs []verbs.WC, round int) {
	for got := 0; got < round; {
		n, err := cq.Poll(wcs)
		if n == 0 || err != nil || wcs[0].Status != verbs.WCSuccess {
			panic("nothing to poll")
		}
		got += n
	}
}

//go:noinline
func measureBatch(qp provider.QP, wr *provider.SendWR, batch, calls int) {
	for range calls {
		qp.BatchBegin()
		for i := range batch {
			wr.ID = uint64(i)
			if err := qp.BatchAdd(wr); err != nil {
				panic(err)
			}
		}
		if err := qp.BatchPost(); err != nil {
			panic(err)
		}
	}
}

//go:noinline
func measureBuilderWrite(qp builder, sge provider.SGE, batch, calls int) {
	for range calls {
		qp.BatchBegin()
		for i := range batch {
			if err := qp.BatchWrite(uint64(i), sge, remote, provider.SendSignaled); err != nil {
				panic(err)
			}
		}
		if err := qp.BatchPost(); err != nil {
			panic(err)
		}
	}
}

//go:noinline
func measureBuilderInline(qp builder, data []byte, batch, calls int) {
	for range calls {
		qp.BatchBegin()
		for i := range batch {
			if err := qp.BatchSendInline(uint64(i), data, provider.SendSignaled); err != nil {
				panic(err)
			}
		}
		if err := qp.BatchPost(); err != nil {
			panic(err)
		}
	}
}

//go:noinline
func measureVerbsBatchWrite(b *verbs.Batch, sge verbs.SGE, batch, calls int) {
	for range calls {
		for i := range batch {
			b.Write(uint64(i), sge, remote, verbs.SendSignaled)
		}
		if err := b.Post(); err != nil {
			panic(err)
		}
	}
}

//go:noinline
func measureVerbsBatchInline(b *verbs.Batch, data []byte, batch, calls int) {
	for range calls {
		for i := range batch {
			b.SendInline(uint64(i), data, verbs.SendSignaled)
		}
		if err := b.Post(); err != nil {
			panic(err)
		}
	}
}
