// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"purerdma/verbs"
)

// makeSend fills in the request of every send.
func (n *node) makeSend() {
	wr := verbs.SendWR{ID: idSend, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
	if n.inline {
		wr.InlineData = n.mr.Bytes()[n.head():][:n.opt.size]
	} else {
		wr.SGList = []verbs.SGE{n.message()}
	}
	if n.Type == verbs.UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = n.ah, n.remote[0].QPN, n.path.RemoteQKey()
	}
	n.send = []verbs.SendWR{wr}
}

// post sends a message on a QP and records the completions that must precede the next one.
func (n *node) post(i int) error {
	var err error
	if n.opt.newSend {
		// C uses ibv_wr_start and its siblings here.
		n.batch.Reset(n.qps[i])
		if n.inline {
			n.batch.SendInline(idSend, n.send[0].InlineData, verbs.SendSignaled)
		} else {
			n.batch.Send(idSend, n.send[0].SGList[0], verbs.SendSignaled)
		}
		err = n.batch.Post()
	} else {
		_, err = n.qps[i].PostSend(n.send)
	}
	if err != nil {
		return n.fail(err, "Couldn't post send")
	}
	n.pending[i] = idRecv | idSend
	return nil
}

// mark writes the pattern that the peer verifies with -c. It is the number of each page modulo
// sizeof(char), which is always 0.
func (n *node) mark() {
	b := n.mr.Bytes()[n.head():][:n.opt.size]
	for i := 0; i < n.opt.size; i += os.Getpagesize() {
		b[i] = 0
	}
}

// verify checks the pattern and prints the pages without it.
func (n *node) verify() {
	b := n.mr.Bytes()[n.head():][:n.opt.size]
	for i := 0; i < n.opt.size; i += os.Getpagesize() {
		if b[i] != 0 {
			n.u.Printf("invalid data in page %d\n", i/os.Getpagesize())
		}
	}
}

// exchange sends and receives all messages and returns the elapsed time. Each QP sends again
// when its previous message has completed and the peer's message has arrived.
func (n *node) exchange(ctx context.Context) (time.Duration, error) {
	for i := range n.pending {
		n.pending[i] = idRecv
	}
	if n.opt.server != "" {
		if n.opt.check {
			n.mark()
		}
		for i := range n.qps {
			if err := n.post(i); err != nil {
				return 0, err
			}
		}
	}
	var steps atomic.Int64
	ctx, cancel := patient(ctx, n.opt.patience, &steps)
	defer cancel()
	start := time.Now()
	sent, received := 0, 0
	wcs := make([]verbs.WC, min(n.opt.depth+len(n.qps), 1024))
	for sent < n.opt.iters || received < n.opt.iters {
		k, err := n.completions(ctx, wcs)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return 0, n.fail(err, "poll CQ failed %d", -1)
		}
		steps.Add(int64(k))
		for i := range wcs[:k] {
			wc := &wcs[i]
			if wc.Status != verbs.WCSuccess {
				return 0, n.fail(wc.Err(), "Failed status %v (%d) for wr_id %d", wc.Status, wc.Status, wc.ID)
			}
			q := n.find(wc.QPNum)
			if q < 0 {
				return 0, n.fail(fmt.Errorf("completion %+v", *wc), "Couldn't find QPN %06x", wc.QPNum)
			}
			if wc.ID == idSend {
				sent++
			} else {
				received++
				if err := n.received(); err != nil {
					return 0, err
				}
			}
			n.pending[q] &^= int(wc.ID)
			if sent < n.opt.iters && n.pending[q] == 0 {
				if err := n.post(q); err != nil {
					return 0, err
				}
			}
		}
	}
	return time.Since(start), nil
}

// received records a completed receive and posts more receives when few are left.
func (n *node) received() error {
	n.routs--
	if n.routs > len(n.qps) {
		return nil
	}
	return n.postReceives()
}

func (n *node) find(qpn uint32) int {
	for i, qp := range n.qps {
		if qp.Num() == qpn {
			return i
		}
	}
	return -1
}

// pollsPerLook is the number of polls of a queue between checks of the context.
const pollsPerLook = 1000

// completions waits for completions. It sleeps with -e and polls otherwise, as the C programs
// do.
func (n *node) completions(ctx context.Context, wcs []verbs.WC) (int, error) {
	if n.opt.events {
		return n.cq.Wait(ctx, wcs)
	}
	for {
		for range pollsPerLook {
			if k, err := n.cq.Poll(wcs); k > 0 || err != nil {
				return k, err
			}
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}
