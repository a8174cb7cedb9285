// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"fmt"
	"syscall"

	"purerdma/oob"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// transportChecks use transports that few programs use. Both ends are on this host, even with a peer.
var transportChecks = []Check{
	{ID: "xrc", recorded: true, Local: true, Title: "messages to two shared receive queues over one connection, on this host", needs: needsXRC, do: checkXRC},
	{ID: "dc", Local: true, Title: "messages, WRITEs and READs of dynamic connections, on this host", needs: needsConnectX, do: checkDC},
	{ID: "dc-streams", Local: true, Title: "streams of an initiator of dynamic connections, of which one fails, on this host", needs: needsConnectX, do: checkDCStreams},
}

func needsXRC(t *trial) string {
	if !t.features.XRC {
		return "the device has no XRC"
	}
	return ""
}

// local opens an end on the target's device. Only its PD, CQs, memory and address are used.
func (t *trial) local() *end { return t.localWith(Config{}) }

// localWith is like local, with a configuration.
func (t *trial) localWith(cfg Config) *end {
	e := &end{target: t.target, cfg: cfg}
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

// dynamic is an initiator of dynamic connections with a target, on this host.
type dynamic struct {
	near, far *end
	srq       *verbs.SRQ
	target    *mlx5dv.DCT
	from      *mlx5dv.DCI
	ah        *verbs.AH
}

// dcKey is the key of targets.
const dcKey = 0x0123456789abcdef

// dynamic creates an initiator and a target. The logarithms are of the initiator's streams, and of the streams that may fail.
func (t *trial) dynamic(logStreams, logFailed uint8) *dynamic {
	near, far := t.local(), t.local()
	mtu, err := near.portMTU()
	t.must("query the port", err)
	d, err := mlx5dv.From(far.dev)
	t.must("use the device", err)
	srq, err := far.pd.CreateSRQ(verbs.SRQConfig{})
	t.must("create a shared receive queue", err)
	t.later(srq.Close)
	target, err := d.CreateDCT(mlx5dv.DCTConfig{PD: far.pd, CQ: far.recvCQ, SRQ: srq, Key: dcKey})
	if errors.Is(err, errors.ErrUnsupported) {
		t.skip("the device has no dynamic connections: %v", err)
	}
	t.must("create a target", err)
	t.later(target.Close)
	d, err = mlx5dv.From(near.dev)
	t.must("use the device", err)
	from, err := d.CreateDCI(mlx5dv.DCIConfig{
		PD: near.pd, CQ: near.sendCQ, Cap: verbs.QPCap{SendWR: 16, SendSGE: 2, Inline: 64}, LogStreams: logStreams, LogErroredStreams: logFailed,
	})
	if logStreams > 0 && errors.Is(err, syscall.EINVAL) {
		t.skip("the device has no streams: %v", err)
	}
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
	return &dynamic{near, far, srq, target, from, ah}
}

// post posts a request of a stream.
func (d *dynamic) post(wr verbs.SendWR, stream int) error {
	wr.AH, wr.RemoteQPN = d.ah, d.target.Num()
	_, err := d.from.Post([]mlx5dv.DCWR{{SendWR: signaled(wr), Key: dcKey, Stream: uint16(stream)}})
	return err
}

// remote returns a request that transfers a piece of the near memory to or from an offset of the far memory.
func (d *dynamic) remote(op verbs.SendOpcode, p piece, to int) verbs.SendWR {
	return verbs.SendWR{Opcode: op, SGList: d.near.elements([]piece{p}), RemoteAddr: d.far.mr.Addr() + uint64(to), RKey: d.far.mr.RKey()}
}

func checkDC(t *trial) {
	t.record()
	d := t.dynamic(0, 0)
	near, far := d.near, d.far
	post := func(wr verbs.SendWR) error { return d.post(wr, 0) }
	for k, size := range []int{0, 1, 32, 33, 64, 65, 4000} {
		t.deliver(near, far, far.recvCQ, d.srq, k, size, func() error {
			return post(verbs.SendWR{Opcode: verbs.OpSend, SGList: near.elements([]piece{{0, size}})})
		})
		if size == 0 {
			continue
		}
		// A READ into other memory returns the data of a WRITE.
		const to = 8192
		fillPattern(near.mr.Bytes()[:size], k+100)
		t.must("post", post(d.remote(verbs.OpWrite, piece{0, size}, 0)))
		t.completed(near.sendCQ, "WRITE")
		clear(near.mr.Bytes()[to:][:size])
		t.must("post", post(d.remote(verbs.OpRead, piece{to, size}, 0)))
		t.completed(near.sendCQ, "READ")
		if got, want := near.mr.Bytes()[to:][:size], pattern(k+100, size); string(got) != string(want) {
			t.fail("READ after WRITE of %d bytes: %s", size, difference(got, want))
		}
	}
	t.noteFormats("DC", t.recording().completions)
}

// checkDCStreams writes by three streams in turn. In the second round the WRITE of one of them has an unknown key. The other streams
// must go on.
func checkDCStreams(t *trial) {
	const streams, broken, size, back = 3, 2, 64, 4096
	d := t.dynamic(2, 2)
	near := d.near.mr.Bytes()
	for round := range 3 {
		for stream := 1; stream <= streams; stream++ {
			at := stream * size
			fillPattern(near[at:][:size], 10*round+stream)
			write := d.remote(verbs.OpWrite, piece{at, size}, at)
			if round == 1 && stream == broken {
				write.RKey ^= 0xffff00
			}
			what := fmt.Sprintf("WRITE of stream %d in round %d", stream, round)
			t.must("post", d.post(write, stream))
			wcs, err := wait(t.ctx, d.near.sendCQ, 1)
			t.must("wait for "+what, err)
			if round > 0 && stream == broken {
				t.note("%s: %v, vendor error %#x", what, wcs[0].Status, wcs[0].VendorErr)
				if wcs[0].Err() == nil || round == 1 && wcs[0].Status != verbs.WCRemAccessErr {
					t.fail("%s: %v, want an error, and at first %v", what, wcs[0].Status, verbs.WCRemAccessErr)
				}
				continue
			}
			t.must(what, wcs[0].Err())
			t.must("post", d.post(d.remote(verbs.OpRead, piece{back + at, size}, at), stream))
			t.completed(d.near.sendCQ, "READ after the "+what)
			if got, want := near[back+at:][:size], near[at:][:size]; string(got) != string(want) {
				t.fail("READ after the %s: %s", what, difference(got, want))
			}
		}
	}
}
