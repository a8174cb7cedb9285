// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"fmt"

	"purerdma/oob"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// transportChecks use transports that few programs use. Both ends are on this host, even with a peer.
var transportChecks = []Check{
	{ID: "xrc", recorded: true, Local: true, Title: "messages to two shared receive queues over one connection, on this host", needs: needsXRC, do: checkXRC},
	{ID: "dc", Local: true, Title: "messages, WRITEs and READs of dynamic connections, on this host", needs: needsConnectX, do: checkDC},
}

func needsXRC(t *trial) string {
	if !t.features.XRC {
		return "the device has no XRC"
	}
	return ""
}

// local opens an end on the target's device. Only its PD, CQs, memory and address are used.
func (t *trial) local() *end {
	e := &end{target: t.target}
	t.ends = append(t.ends, e)
	t.later(e.close)
	t.must("open an end", e.open())
	return e
}

// modifier is a QP.
type modifier interface {
	Modify(*verbs.QPAttr, verbs.QPAttrMask) error
}

// move changes the state of a QP.
func (t *trial) move(q modifier, a verbs.QPAttr, mask verbs.QPAttrMask) {
	t.must(fmt.Sprintf("move a QP to %v", a.State), q.Modify(&a, mask|verbs.QPAttrState))
}

// Attributes of connections in this file.
const (
	initMask  = verbs.QPAttrPKeyIndex | verbs.QPAttrPort
	routeMask = verbs.QPAttrAV | verbs.QPAttrPathMTU
	peerMask  = verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN
	retryMask = verbs.QPAttrTimeout | verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount | verbs.QPAttrMaxRdAtomic | verbs.QPAttrSQPSN

	ackTimeout = 14 // 67 ms
	retryCount = 6
	rnrTimer   = 12 // 0.64 ms
)

func checkXRC(t *trial) {
	near, far := t.local(), t.local()
	mtu, err := near.portMTU()
	t.must("query the port", err)
	domain, err := far.dev.OpenXRCD(nil, 0)
	t.must("open a domain", err)
	t.later(domain.Close)
	send, err := near.pd.CreateQP(verbs.QPConfig{Type: verbs.XRCSend, SendCQ: near.sendCQ})
	t.must("create a QP for sends", err)
	t.later(send.Close)
	recv, err := far.pd.CreateQP(verbs.QPConfig{Type: verbs.XRCRecv, XRCD: domain})
	t.must("create a QP for receives", err)
	t.later(recv.Close)
	for _, q := range []struct {
		qp, peer *verbs.QP
		route    verbs.AHAttr
	}{{send, recv, near.path.AH(far.own)}, {recv, send, far.path.AH(near.own)}} {
		t.move(q.qp, verbs.QPAttr{State: verbs.QPInit, Port: t.target.Port, Access: far.path.Access}, initMask|verbs.QPAttrAccess)
		rtr, rts := routeMask|peerMask, retryMask
		if q.qp == recv {
			rtr |= verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer
			rts = verbs.QPAttrTimeout | verbs.QPAttrSQPSN
		}
		t.move(q.qp, verbs.QPAttr{State: verbs.QPRTR, PathMTU: mtu, DestQPNum: q.peer.Num(), AH: q.route, MaxDestRdAtomic: rdAtomic, MinRNRTimer: rnrTimer}, rtr)
		t.move(q.qp, verbs.QPAttr{State: verbs.QPRTS, Timeout: ackTimeout, RetryCount: retryCount, RNRRetryCount: 7, MaxRdAtomic: rdAtomic}, rts)
	}
	for i := range 2 {
		cq, err := newCQ(far.dev, 64, mlx5dv.CQOptions{})
		t.must("create a CQ", err)
		t.later(cq.Close)
		t.ends = append(t.ends, &end{recvCQ: cq})
		srq, err := far.pd.CreateSRQ(verbs.SRQConfig{XRCD: domain, CQ: cq})
		t.must("create a shared receive queue", err)
		t.later(srq.Close)
		for k, size := range []int{0, 1, 32, 33, 64, 65, 4000} {
			wr := verbs.SendWR{Opcode: verbs.OpSend, RemoteSRQN: srq.Num(), SGList: near.elements([]piece{{0, size}})}
			t.deliver(near, far, cq, srq, 10*i+k, size, func() error {
				_, err := send.PostSend([]verbs.SendWR{signaled(wr)})
				return err
			})
		}
	}
	if needsConnectX(t) == "" {
		t.noteFormats("XRC", t.recording().completions)
	}
}

// deliver sends a message into a receive of a shared receive queue and compares it.
func (t *trial) deliver(near, far *end, cq *verbs.CQ, srq *verbs.SRQ, seed, size int, post func() error) {
	what := fmt.Sprintf("message of %d bytes", size)
	copy(far.mr.Bytes(), guards(size+2*margin))
	_, err := srq.PostRecv([]verbs.RecvWR{{ID: uint64(seed), SGList: far.elements([]piece{{margin, size}})}})
	t.must("post a receive", err)
	fillPattern(near.mr.Bytes()[:size], seed)
	t.must("post", post())
	t.completed(near.sendCQ, what)
	if wc := t.completed(cq, what); int(wc.ByteLen) != size || wc.ID != uint64(seed) {
		t.fail("%s: completion %+v, want ID %d", what, wc, seed)
	}
	want := guards(size + 2*margin)
	fillPattern(want[margin:][:size], seed)
	if got := far.mr.Bytes()[:len(want)]; string(got) != string(want) {
		t.fail("%s: %s", what, difference(got, want))
	}
}

// completed waits for a successful completion.
func (t *trial) completed(cq *verbs.CQ, what string) verbs.WC {
	wcs, err := wait(t.ctx, cq, 1)
	t.must("wait for "+what, err)
	t.must(what, wcs[0].Err())
	return wcs[0]
}

func checkDC(t *trial) {
	t.record()
	near, far := t.local(), t.local()
	mtu, err := near.portMTU()
	t.must("query the port", err)
	d, err := mlx5dv.From(far.dev)
	t.must("use the device", err)
	srq, err := far.pd.CreateSRQ(verbs.SRQConfig{})
	t.must("create a shared receive queue", err)
	t.later(srq.Close)
	const key = 0x0123456789abcdef
	target, err := d.CreateDCT(mlx5dv.DCTConfig{PD: far.pd, CQ: far.recvCQ, SRQ: srq, Key: key})
	if errors.Is(err, errors.ErrUnsupported) {
		t.skip("the device has no dynamic connections: %v", err)
	}
	t.must("create a target", err)
	t.later(target.Close)
	d, err = mlx5dv.From(near.dev)
	t.must("use the device", err)
	from, err := d.CreateDCI(mlx5dv.DCIConfig{PD: near.pd, CQ: near.sendCQ, Cap: verbs.QPCap{SendWR: 16, SendSGE: 2, Inline: 64}})
	t.must("create an initiator", err)
	t.later(from.Close)
	t.move(target, verbs.QPAttr{State: verbs.QPInit, Port: t.target.Port, Access: far.path.Access}, initMask|verbs.QPAttrAccess)
	t.move(target, verbs.QPAttr{State: verbs.QPRTR, PathMTU: mtu, MinRNRTimer: rnrTimer, AH: far.path.AH(near.own)}, routeMask|verbs.QPAttrMinRNRTimer)
	t.move(from, verbs.QPAttr{State: verbs.QPInit, Port: t.target.Port}, initMask)
	t.move(from, verbs.QPAttr{State: verbs.QPRTR, PathMTU: mtu, AH: near.path.AH(far.own)}, routeMask)
	t.move(from, verbs.QPAttr{State: verbs.QPRTS, Timeout: ackTimeout, RetryCount: retryCount, RNRRetryCount: 7, MaxRdAtomic: rdAtomic}, retryMask)
	ah, err := near.pd.CreateAH(near.path.AH(oob.Address{LID: far.own.LID, GID: far.own.GID}))
	t.must("create an address", err)
	t.later(ah.Close)
	post := func(wr verbs.SendWR) error {
		wr.AH, wr.RemoteQPN = ah, target.Num()
		_, err := from.Post([]mlx5dv.DCWR{{SendWR: signaled(wr), Key: key}})
		return err
	}
	for k, size := range []int{0, 1, 32, 33, 64, 65, 4000} {
		t.deliver(near, far, far.recvCQ, srq, k, size, func() error {
			return post(verbs.SendWR{Opcode: verbs.OpSend, SGList: near.elements([]piece{{0, size}})})
		})
		if size == 0 {
			continue
		}
		// A READ into other memory returns the data of a WRITE.
		const to = 8192
		remote := verbs.SendWR{Opcode: verbs.OpWrite, SGList: near.elements([]piece{{0, size}}), RemoteAddr: far.mr.Addr(), RKey: far.mr.RKey()}
		fillPattern(near.mr.Bytes()[:size], k+100)
		t.must("post", post(remote))
		t.completed(near.sendCQ, "WRITE")
		clear(near.mr.Bytes()[to:][:size])
		remote.Opcode, remote.SGList = verbs.OpRead, near.elements([]piece{{to, size}})
		t.must("post", post(remote))
		t.completed(near.sendCQ, "READ")
		if got, want := near.mr.Bytes()[to:][:size], pattern(k+100, size); string(got) != string(want) {
			t.fail("READ after WRITE of %d bytes: %s", size, difference(got, want))
		}
	}
	t.noteFormats("DC", t.recording().completions)
}
