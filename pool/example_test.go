// SPDX-License-Identifier: Apache-2.0

package pool_test

import (
	"context"
	"log"

	"purerdma/pool"
	"purerdma/verbs"
)

// Messages that are posted without waiting. The pool bounds their memory, and the completion of each
// request frees its Buf.
func Example() {
	var (
		ctx      context.Context
		qp       *verbs.QP
		messages [][]byte
	)
	p, err := pool.New(qp.PD(), pool.Config{MaxBytes: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	inFlight := map[uint64]*pool.Buf{} // by ID of the request
	reap := func() {
		var wcs [16]verbs.WC
		n, err := qp.SendCQ().Wait(ctx, wcs[:])
		if err != nil {
			log.Fatal(err)
		}
		for _, wc := range wcs[:n] {
			inFlight[wc.ID].Free() // the device no longer uses it, even if the request has failed
			delete(inFlight, wc.ID)
			if err := wc.Err(); err != nil {
				log.Fatal(err)
			}
		}
	}
	for i, msg := range messages {
		b, err := p.TryGet(len(msg))
		for err != nil && len(inFlight) > 0 {
			reap()
			b, err = p.TryGet(len(msg))
		}
		if err != nil {
			log.Fatal(err)
		}
		copy(b.Bytes(), msg)
		for len(inFlight) == qp.Cap().SendWR {
			reap()
		}
		if _, err := qp.PostSend([]verbs.SendWR{{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{b.SGE()}}}); err != nil {
			b.Free()
			log.Fatal(err)
		}
		inFlight[uint64(i)] = b
	}
	for len(inFlight) > 0 {
		reap()
	}
}
