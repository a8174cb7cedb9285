// SPDX-License-Identifier: Apache-2.0

package hwjudge

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// cqe is a completion of a ConnectX (struct mlx5_cqe64 of mlx5dv.h).
type cqe []byte

func (c cqe) opcode() byte    { return c[63] >> 4 }
func (c cqe) format() byte    { return c[63] >> 2 & 3 }
func (c cqe) counter() uint16 { return binary.BigEndian.Uint16(c[60:]) }
func (c cqe) byteLen() uint32 { return binary.BigEndian.Uint32(c[44:]) }
func (c cqe) syndrome() byte  { return c[55] }
func (c cqe) failed() bool    { return c.opcode() == reqErr || c.opcode() == respErr }
func (c cqe) ofRequest() bool { return c.opcode() == req || c.opcode() == reqErr }
func (c cqe) ofReceive() bool {
	return c.opcode() >= respWriteImm && c.opcode() <= respSendInv || c.opcode() == respErr
}
func (c cqe) dataInside() bool { return c.format() == 1 || c.format() == 2 }

// Opcodes of completions.
const (
	req          = 0x0
	respWriteImm = 0x1
	respSendInv  = 0x4
	reqErr       = 0xd
	respErr      = 0xe
)

// signaledBits of a WQE request a completion.
const signaledBits = 2 << 2

// findings has the completions of a recording for and against a belief.
type findings struct {
	good  int // completions that agree
	extra int // agreeing completions that a likely alternative excludes
	bad   []string
}

// against adds a contradiction.
func (f *findings) against(format string, args ...any) {
	const most = 5 // one defect has many
	if len(f.bad) < most {
		f.bad = append(f.bad, fmt.Sprintf(format, args...))
	}
}

// add adds the findings of another recording.
func (f *findings) add(g findings) {
	f.good, f.extra = f.good+g.good, f.extra+g.extra
	for _, b := range g.bad {
		f.against("%s", b)
	}
}

// positions are the posted and not completed requests or receives of a queue of a QP.
type positions struct {
	next    uint16
	begun   bool
	matched bool // a completion had its request, so the beginning of the recording is over
	size    int
	posted  []position
	resets  int       // of the queue
	before  uint16    // number of blocks or receives before the last reset
	fresh   *findings // about counters after a reset
}

type position struct {
	at       uint16
	signaled bool
}

// post adds a request. A queue that begins at another position was reset.
func (p *positions) post(at uint16, count int, signaled bool) {
	if p.begun && at != p.next {
		p.posted, p.matched = nil, false
		p.resets++
		p.before += p.next
	}
	p.begun, p.next = true, at+uint16(count)
	p.posted = append(p.posted, position{at, signaled})
}

// complete removes the request of a completion and all before it.
func (p *positions) complete(counter uint16, f *findings, where string, lost bool) {
	for i, q := range p.posted {
		if q.at != counter {
			continue
		}
		for _, before := range p.posted[:i] {
			if before.signaled {
				f.against("%s: the completion of %d is after that of %d", where, before.at, counter)
			}
		}
		p.posted, p.matched = p.posted[i+1:], true
		f.good++
		if int(counter) >= p.size {
			f.extra++
		}
		if p.resets > 0 {
			p.fresh.good++
			p.fresh.extra++
		}
		return
	}
	if lost && !p.matched {
		return // posted before the recording
	}
	if len(p.posted) == 0 {
		f.against("%s: the counter %d names no request, all have completed", where, counter)
		return
	}
	oldest := p.posted[0].at
	if p.resets > 0 && counter == oldest+p.before {
		p.fresh.against("%s: the counter %d goes on after a reset, the oldest request is %d", where, counter, oldest)
		p.posted = p.posted[1:]
		return
	}
	if int(counter) == int(oldest)&(p.size-1) {
		f.against("%s: the counter %d is %d modulo the size of the queue, %d", where, counter, oldest, p.size)
		p.posted = p.posted[1:]
		return
	}
	f.against("%s: the counter %d names no request, the oldest one is %d", where, counter, oldest)
}

// queues are the two queues of a QP.
type queues struct{ sends, recvs positions }

// roundUp returns the smallest power of two that is not less than n.
func roundUp(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// counterFindings are about the counters in the completions of receives, of requests, of both that have failed, and of both after a reset.
type counterFindings struct{ recvs, sends, failures, resets findings }

// counters compares the counters in completions with the positions of the requests.
func (r *recording) counters() *counterFindings {
	all := new(counterFindings)
	state := map[string]*queues{}
	of := func(id string) *queues {
		q := state[id]
		if q == nil {
			c := r.qps[id].GotCap
			q = &queues{positions{size: roundUp(c[0]), fresh: &all.resets}, positions{size: roundUp(c[1]), fresh: &all.resets}}
			state[id] = q
		}
		return q
	}
	for i := range r.lines {
		l := &r.lines[i]
		switch l.T {
		case "send":
			p := &of(l.QP).sends
			l.requests(func(wqe []byte, at uint16) { p.post(at, blocks(wqe), wqe[11]&(3<<2) == signaledBits) })
		case "recv":
			if r.qps[l.On] == nil {
				continue // an SRQ, whose slots are in the order of its links
			}
			p := &of(l.On).recvs
			for k := range l.WRs {
				p.post(uint16(l.At)+uint16(k), 1, true)
			}
		case "poll":
			id := l.CQEs[0].Of
			if r.qps[id] == nil {
				continue // not recorded, or an SRQ
			}
			q, e := of(id), l.cqe()
			f, p := &all.recvs, &q.recvs
			switch {
			case e.ofRequest():
				f, p = &all.sends, &q.sends
			case !e.ofReceive() || !p.begun && (r.lost > 0 || r.qps[id].GotCap[1] == 0):
				continue // another kind of completion, or the receives are in an SRQ
			}
			if e.failed() {
				f = &all.failures
			}
			p.complete(e.counter(), f, fmt.Sprintf("%s, %s, %s", clean(r.name), clean(id), kind(e)), r.lost > 0)
		}
	}
	return all
}

// kind names a completion.
func kind(e cqe) string {
	s := "receive"
	if e.ofRequest() {
		s = "request"
	}
	if e.failed() {
		return fmt.Sprintf("failed %s of syndrome %#x", s, e.syndrome())
	}
	return s
}

// scattered compares the completions that have the data of their messages with the belief that only short
// messages, READs and atomics have.
func (r *recording) scattered() (f findings) {
	for i := range r.lines {
		l := &r.lines[i]
		if l.T != "poll" || l.cqe().failed() || l.cqe().format() == 0 {
			continue
		}
		e := l.cqe()
		most := uint32(32)
		if e.format() == 2 {
			most = 64
		}
		switch {
		case !e.dataInside() || !e.ofReceive() && !e.ofRequest():
		case e.byteLen() > most:
			f.against("%s: a completion of format %d has %d bytes of data", clean(r.name), e.format(), e.byteLen())
		case e.opcode() == respWriteImm:
			f.against("%s: the completion of a WRITE with immediate data has data", clean(r.name))
		default:
			f.good++
			f.extra++
		}
	}
	return f
}

// explained compares all entries of CQs with the belief that each has a request.
func (r *recording) explained() (f findings) {
	for i := range r.lines {
		if l := &r.lines[i]; l.T == "poll" && l.N == 0 {
			f.against("%s: the driver has skipped an entry of opcode %#x", clean(r.name), l.cqe().opcode())
		}
	}
	return f
}
