// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"

	"purerdma/test/pci"
)

// qp is a QP.
type qp struct {
	d      *Device
	n      uint32
	pd     uint32
	state  state
	cookie uint32

	send, receive     ring
	sendCQ, receiveCQ *cq
	group             uint32 // group of the pages of its doorbells, 0 for pages that all programs share

	ends endpoints
	peer *qp // nil unless both ends are connected.

	failNext status // a fault, see faults
}

// ring is a send queue or a receive queue.
type ring struct {
	buffer pci.Pages
	depth  uint16 // in entries, a power of two
	pi, ci uint16
}

// waiting returns the number of posted entries.
func (r *ring) waiting() uint16 { return r.pi - r.ci }

// at returns n bytes of the entry with an index.
func (r *ring) at(d *Device, index uint16, n int) []byte {
	return r.buffer.At(d.mem, uint64(index&(r.depth-1))*blockSize, n)
}

func (q *qp) name() string { return fmt.Sprintf("QP %#x", q.n) }

// newRing reads the description of a queue from CREATE_QP. The arguments are the log2 of its
// depth, two configuration words, its address, and the entries of the page list after that.
func newRing(log, cqConfig, config, addr uint64, more []byte) (ring, error) {
	r := ring{buffer: pci.Pages{Shift: uint(bits(cqConfig, 31, 28)) + 12, First: config &^ 0xfff}}
	count := bits(config, 11, 1)
	if log > logMaxBlocks {
		return r, fmt.Errorf("queue of 2^%d entries, want at most 2^%d", log, logMaxBlocks)
	}
	r.depth = 1 << log
	if bits(config, 0, 0) != 0 {
		r.buffer.Table, r.buffer.Levels, r.buffer.N = addr, 1, count
	} else {
		if count > 4 {
			return r, fmt.Errorf("%d pages without a table, want at most 4", count)
		}
		r.buffer.Entries = append(r.buffer.Entries, addr)
		for i := range max(count, 1) - 1 {
			r.buffer.Entries = append(r.buffer.Entries, le.Uint64(more[8*i:]))
		}
	}
	return r, r.buffer.Check(uint64(r.depth)*blockSize, maxPages)
}

func createQP(d *Device, in []byte) (answer, error) {
	cfg0, cfg1 := uint64(le.Uint32(in[8:])), uint64(le.Uint32(in[12:]))
	sendCfg, receiveCfg := uint64(le.Uint32(in[16:])), uint64(le.Uint32(in[20:]))
	q := &qp{d: d, n: uint32(bits(cfg0, 19, 0)), pd: uint32(bits(cfg1, 19, 0))}
	q.sendCQ, q.receiveCQ = d.cqs[uint32(bits(sendCfg, 23, 0))], d.cqs[uint32(bits(receiveCfg, 23, 0))]
	if bits(sendCfg, 25, 25) != 0 {
		q.group = group(uint32(le.Uint16(in[114:])))
	}
	var err error
	if q.send, err = newRing(bits(cfg0, 31, 20), sendCfg, uint64(le.Uint32(in[40:])), le.Uint64(in[24:]), in[64:88]); err != nil {
		return answer{}, fmt.Errorf("send queue: %w", err)
	}
	if q.receive, err = newRing(bits(cfg1, 31, 20), receiveCfg, uint64(le.Uint32(in[44:])), le.Uint64(in[32:]), in[88:112]); err != nil {
		return answer{}, fmt.Errorf("receive queue: %w", err)
	}
	switch {
	case q.n == 0 || q.n >= maxQP || d.qps[q.n] != nil:
		return answer{}, fmt.Errorf("QP %#x exists, or is not between 1 and %#x", q.n, maxQP-1)
	case q.sendCQ == nil || q.receiveCQ == nil:
		return answer{}, fmt.Errorf("there is no CQ %#x or %#x", bits(sendCfg, 23, 0), bits(receiveCfg, 23, 0))
	case bits(sendCfg, 25, 25) != 0 && (!d.dbs[q.group] || group(uint32(le.Uint16(in[112:]))) != q.group):
		return answer{}, fmt.Errorf("doorbell pages %#x and %#x are not allocated", le.Uint16(in[114:]), le.Uint16(in[112:]))
	case !d.isRecord(le.Uint64(in[48:])) || !d.isRecord(le.Uint64(in[56:])):
		return answer{}, fmt.Errorf("the host has no memory for doorbell records at %#x and %#x", le.Uint64(in[48:]), le.Uint64(in[56:]))
	}
	q.sendCQ.users++
	q.receiveCQ.users++
	d.qps[q.n] = q
	d.fabric.cookies++
	q.cookie = d.fabric.cookies
	return answer{uint64(q.cookie)}, nil
}

func destroyQP(d *Device, in []byte) (answer, error) {
	n := le.Uint32(in[8:])
	q := d.qps[n]
	if q == nil {
		return answer{}, fmt.Errorf("there is no QP %#x", n)
	}
	q.disconnect()
	q.sendCQ.users--
	q.receiveCQ.users--
	delete(d.qps, n)
	return answer{}, nil
}

func modifyQP(d *Device, in []byte) (answer, error) {
	cfg := uint64(le.Uint32(in[8:]))
	n, to := uint32(bits(cfg, 19, 0)), state(bits(cfg, 31, 24))
	q := d.qps[n]
	switch {
	case q == nil:
		return answer{}, fmt.Errorf("there is no QP %#x", n)
	case to == stateRTS:
		e := endpoints{
			destination: [4]byte(in[16:]), source: [4]byte(in[20:]),
			sourcePort: [2]byte(in[24:]), destinationPort: [2]byte(in[26:]),
		}
		return answer{}, q.connect(e, le.Uint32(in[12:]))
	case to == stateClosing || to == stateTerminate || to == stateError:
		q.fail(to)
		return answer{}, nil
	}
	return answer{}, fmt.Errorf("QP %#x: transition from %v to %v", n, q.state, to)
}

// connect moves the QP to RTS. cookie is the cookie of the peer.
func (q *qp) connect(e endpoints, cookie uint32) error {
	f := q.d.fabric
	switch {
	case q.state > stateRTR:
		return fmt.Errorf("QP %#x: transition from %v to RTS", q.n, q.state)
	case f.connected[e] != nil:
		return fmt.Errorf("QP %#x: another QP is connected from %v:%d to %v:%d", q.n, e.source, be.Uint16(e.sourcePort[:]), e.destination, be.Uint16(e.destinationPort[:]))
	}
	peer := f.connected[e.reversed()]
	if peer != nil && peer.cookie != cookie {
		return fmt.Errorf("QP %#x: the peer's cookie is %#x, not %#x", q.n, peer.cookie, cookie)
	}
	q.ends, q.state = e, stateRTS
	f.connected[e] = q
	if peer != nil {
		q.peer, peer.peer = peer, q
		q.resume()
	}
	return nil
}

// disconnect removes the QP and its peer from the fabric.
func (q *qp) disconnect() {
	if q.d.fabric.connected[q.ends] == q {
		delete(q.d.fabric.connected, q.ends)
	}
	if p := q.peer; p != nil {
		q.peer, p.peer = nil, nil
		p.disconnect()
	}
}

// fail disconnects the QP, and completes all posted requests and receives.
func (q *qp) fail(to state) {
	q.disconnect()
	flushed := q.state > stateRTS
	q.state = to
	if !flushed {
		q.flush()
	}
}

// flush completes all posted requests and receives.
func (q *qp) flush() {
	for q.send.waiting() > 0 {
		r, ok := q.next()
		if !ok {
			break
		}
		q.complete(r, statusFlushed, 0)
	}
	for q.receive.waiting() > 0 {
		q.receiveCQ.post(completion{queue: queueReceive, opcode: opReceive, status: statusFlushed, qpn: q.n, index: uint32(q.receive.ci)}, false)
		q.receive.ci++
	}
}

// reflush completes requests and receives that were posted after the QP failed. in contains the
// producer indices of the queues.
func reflush(d *Device, in []byte) (answer, error) {
	q := d.qps[le.Uint32(in[8:])]
	if q == nil {
		return answer{}, fmt.Errorf("there is no QP %#x", le.Uint32(in[8:]))
	}
	if q.state <= stateRTS {
		return answer{}, fmt.Errorf("QP %#x is in %v", q.n, q.state)
	}
	q.send.pi, q.receive.pi = uint16(le.Uint32(in[12:])), uint16(le.Uint32(in[16:]))
	q.flush()
	return answer{}, nil
}

// terminate ends the connection after the failure of a request. kind is the event of the peer.
func (q *qp) terminate(kind uint8) {
	peer := q.peer
	q.fail(stateTerminate)
	q.d.event(eventQPFatal, q.n)
	if peer != nil {
		peer.fail(stateTerminate)
		peer.d.event(kind, peer.n)
	}
}
