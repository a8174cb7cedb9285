// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"errors"
	"fmt"
	"net/rpc"
	"time"

	"purerdma/verbs"
)

// link is a connection of the check's near end with a far end. Its methods end the check if they
// fail.
type link struct {
	t *trial
	*end
	far    int // number of the far end
	memory verbs.RemoteMemory
	// slowest is the longest time of a request that send has posted.
	slowest time.Duration
}

// link opens and connects two ends.
func (t *trial) link(cfg Config) *link { return t.connect(cfg, nil) }

// another returns a connection with QPs of its own. Its ends share all other objects with the ends of l.
func (l *link) another() *link { return l.shared(l.end) }

// anotherQueue is like another. The near end also has its own CQ of sends, so that another goroutine can wait for them.
func (l *link) anotherQueue(entries int) *link {
	near := *l.end // with another CQ, which l closes
	cq, err := l.newCQ(entries)
	l.t.must("create a CQ", err)
	near.sendCQ = cq
	return l.shared(&near)
}

// shared connects a near end that shares the objects of another one. The far end shares the objects of the far end of l.
func (l *link) shared(near *end) *link {
	cfg := l.cfg
	cfg.Share = l.far + 1
	return l.t.connect(cfg, near)
}

func (t *trial) connect(cfg Config, share *end) *link {
	l := &link{t: t, end: &end{target: t.target, cfg: cfg, share: share}}
	t.later(l.end.close)
	t.ends = append(t.ends, l.end)
	var o Opened
	t.call("Open", cfg, &o)
	l.far = o.End
	if o.Listen != "" {
		if err := l.dial(t.ctx, o.Listen); err != nil {
			t.fail("connect: %v", errors.Join(err, t.refusal(l.far)))
		}
	} else {
		t.must("open the near end", l.open())
	}
	j := JoinArgs{End: l.far, Address: l.own, MTU: o.MTU}
	if o.Listen == "" {
		mtu, err := l.portMTU()
		t.must("query the port", err)
		j.MTU = min(mtu, o.MTU)
	}
	var joined Joined
	t.call("Join", j, &joined)
	l.memory = joined.Memory
	if o.Listen == "" {
		t.must("connect the near end", l.join(o.Address, j.MTU))
	} else {
		l.hello()
	}
	return l
}

// refusal returns the error for which a far end has refused a connection, or nil if it does not answer in time.
func (t *trial) refusal(far int) error {
	call := t.peer.client.Go("Ends.Join", JoinArgs{End: far}, new(Joined), make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-time.After(patience):
		return nil
	}
}

// hello sends the first message, which siw needs before the far end may send.
func (l *link) hello() {
	l.farRecv(0)
	l.send(verbs.SendWR{Opcode: verbs.OpSend})
	l.farReceived(1)
}

// shut closes both ends. Without it they close at the end of the check.
func (l *link) shut() {
	l.t.must("close the near end", l.end.close())
	l.t.call("Close", l.far, &struct{}{})
}

// farRecv posts a receive at the far end.
func (l *link) farRecv(id uint64, pieces ...piece) {
	l.t.call("Recv", RecvArgs{End: l.far, ID: id, Pieces: pieces}, &struct{}{})
}

// farWait returns n completions of the far end.
func (l *link) farWait(send bool, n int) []verbs.WC {
	var wcs []verbs.WC
	l.t.call("Wait", WaitArgs{End: l.far, Send: send, N: n}, &wcs)
	return wcs
}

// farReceived is like farWait for receives, which must have succeeded.
func (l *link) farReceived(n int) []verbs.WC {
	wcs := l.farWait(false, n)
	l.succeeded("receive of the far end", wcs)
	return wcs
}

// load returns bytes of the far end's memory.
func (l *link) load(off, n int) []byte {
	data := make([]byte, 0, n)
	l.t.call("Load", MemoryArgs{End: l.far, Off: off, Len: n}, &data)
	return data
}

// store changes bytes of the far end's memory.
func (l *link) store(off int, data []byte) {
	l.t.call("Store", MemoryArgs{End: l.far, Off: off, Data: data}, &struct{}{})
}

// farPost posts a send at the far end.
func (l *link) farPost(wr PlainWR, p piece) {
	l.t.call("Post", PostArgs{End: l.far, Off: p.Off, Len: p.Len, WR: wr}, &struct{}{})
}

// succeeded ends the check if a completion has an error.
func (l *link) succeeded(what string, wcs []verbs.WC) {
	for i := range wcs {
		if err := wcs[i].Err(); err != nil {
			l.t.fail("%s: %v", what, err)
		}
	}
}

// post posts sends. They must fit into the queue.
func (l *link) post(wrs ...verbs.SendWR) {
	if n, err := l.qp.PostSend(wrs); err != nil {
		l.t.fail("post %d sends: after %d: %v", len(wrs), n, err)
	}
}

// sends returns n completions of sends.
func (l *link) sends(n int) []verbs.WC {
	wcs, err := wait(l.t.ctx, l.sendCQ, n)
	if errors.Is(err, errLost) {
		l.t.fail("wait for sends: %v", err)
	}
	if err != nil {
		l.t.fail("wait for sends: %v%s", err, l.kick())
	}
	return wcs
}

// received returns n successful completions of the near end's receives.
func (l *link) received(n int) []verbs.WC {
	wcs, err := wait(l.t.ctx, l.recvCQ, n)
	l.t.must("wait for receives", err)
	l.succeeded("receive", wcs)
	return wcs
}

// send posts one signaled request and waits for its success.
func (l *link) send(wr verbs.SendWR) {
	wr.Flags |= verbs.SendSignaled
	began := time.Now()
	l.post(wr)
	l.succeeded(opName(wr.Opcode), l.sends(1))
	l.slowest = max(l.slowest, time.Since(began))
}

// kickID is the ID of the request that kick posts.
const kickID = 1 << 40

// kick rings the doorbell of a queue without progress once more, by another request. It returns
// the diagnosis for the error text.
func (l *link) kick() string {
	wr := verbs.SendWR{ID: kickID, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: l.memory.Addr, RKey: l.memory.RKey}
	if l.ah != nil {
		wr.Opcode = verbs.OpSend
	}
	if _, err := l.qp.PostSend([]verbs.SendWR{l.datagram(wr)}); err != nil {
		return fmt.Sprintf("; another request cannot be posted: %v", err)
	}
	wcs, err := wait(l.t.ctx, l.sendCQ, 1)
	switch {
	case err != nil:
		return "; another request does not help"
	case wcs[0].ID == kickID:
		return fmt.Sprintf("; another request completes (%v): the completion of the request was lost", wcs[0].Status)
	}
	return fmt.Sprintf("; after another request the queue continues with request %d (%v): a doorbell was lost or a store arrived late", wcs[0].ID, wcs[0].Status)
}

// remote returns an address of the far end's memory.
func (l *link) remote(off int) uint64 { return l.memory.Addr + uint64(off) }

// write returns an RDMA WRITE of a piece of the near memory.
func (l *link) write(from piece, to int) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpWrite, SGList: l.elements([]piece{from}), RemoteAddr: l.remote(to), RKey: l.memory.RKey}
}

// read returns an RDMA READ into a piece of the near memory.
func (l *link) read(into piece, from int) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpRead, SGList: l.elements([]piece{into}), RemoteAddr: l.remote(from), RKey: l.memory.RKey}
}

// datagram fills the destination of a datagram.
func (l *link) datagram(wr verbs.SendWR) verbs.SendWR {
	if l.ah != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = l.ah, l.end.remote.QPN, l.path.RemoteQKey()
	}
	return wr
}

// same ends the check if two blocks of data differ.
func (l *link) same(what string, got, want []byte) {
	if !bytes.Equal(got, want) {
		l.t.fail("%s: %s", what, difference(got, want))
	}
}

// full reports whether a queue was full.
func full(err error) bool { return errors.Is(err, verbs.ErrFull) }
