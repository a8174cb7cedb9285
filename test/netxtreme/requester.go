// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"fmt"
	"time"

	"purerdma/test/pci"
)

// Statuses of requests in completions.
const (
	statusOK              = 0
	statusLocalLength     = 2
	statusLocalQPOp       = 3
	statusLocalProtection = 4
	statusMemory          = 5 // management of memory
	statusRemoteInvalid   = 6
	statusRemoteAccess    = 7
	statusRemoteOp        = 8
	statusRNRRetries      = 9
	statusRetries         = 10
)

// Reasons of errors of requests in events.
const (
	reasonTimeout    = 0x2
	reasonRNR        = 0x3
	reasonNAKInvalid = 0x4
	reasonNAKAccess  = 0x5
	reasonNAKOp      = 0x6
	reasonMemory     = 0x9
	reasonBind       = 0xc
	reasonFastReg    = 0xd
	reasonInvalidate = 0xe
	reasonFormat     = 0x11
	reasonAddress    = 0x13
	reasonOpcode     = 0x17
)

// errorCounters maps statuses of requests to counters.
var errorCounters = map[uint8]int{
	statusLocalQPOp: countLocalQPOp, statusLocalProtection: countProtection, statusMemory: countMemory, statusRemoteInvalid: countInvalid,
	statusRemoteAccess: countAccess, statusRemoteOp: countOperation, statusRetries: countRetries,
}

// A failure is the reason why a request has failed.
type failure struct {
	status, reason uint8
	text           string
}

func local(status, reason uint8, format string, args ...any) *failure {
	return &failure{status, reason, fmt.Sprintf(format, args...)}
}

// rnrForever is the number of repetitions after RNR NAKs without a limit.
const rnrForever = 7

// stop stops the timer.
func (q *qp) stop() {
	q.timer.Stop()
	q.blocked = false
}

// run executes requests until the queue is empty or a request has to wait.
func (q *qp) run() {
	if q.running {
		return
	}
	q.running = true
	defer func() { q.running = false }()
	var r request
	for q.state == stateRTS && !q.blocked && q.send.posted() > 0 {
		if text := q.fetch(&r); text != "" {
			q.d.violation(q.name(), "request %#x: %s", q.send.ci, text)
			q.complete(&r, &failure{statusLocalQPOp, reasonOpcode, text})
			return
		}
		q.d.trace("%s request %#x: %x", q.name(), q.send.ci, r.wqe[:min(len(r.wqe), max(3, r.slots)*slotSize)])
		f := q.execute(&r)
		if q.blocked {
			return
		}
		if f != nil {
			q.d.trace("%s request %#x failed: %s", q.name(), q.send.ci, f.text)
		}
		q.complete(&r, f)
	}
}

// complete completes the next request. An error ends the QP.
func (q *qp) complete(r *request, f *failure) {
	failed := uint16(q.send.ci % uint64(q.send.depth))
	q.send.ci += r.entries
	q.completed++
	q.retries, q.rnrRetries = q.retryCount, q.rnrRetry
	if q.messages > 0 && r.psns > 0 {
		q.message = (q.message + 1) % q.messages
	}
	q.sendPSN = (q.sendPSN + r.psns) & psnMask
	if f == nil && !r.signaled {
		return
	}
	var e cqe
	le.PutUint64(e[:], q.handle)
	le.PutUint16(e[8:], q.consumed())
	e.set(completeRequest, statusOK, 0)
	if f != nil {
		if q.variable {
			le.PutUint16(e[8:], failed) // the slot of the request
		}
		e[0x19] = f.status
		if off, ok := errorCounters[f.status]; ok {
			q.d.count(off)
		}
	}
	q.sendCQ.post(&e, false)
	if f != nil {
		q.fail(f.reason, 0)
	}
}

// consumed returns the index after the last completed request for completions. It counts requests
// even if the entries of the queue are slots.
func (q *qp) consumed() uint16 {
	if q.variable {
		return uint16(q.completed % uint64(q.send.depth))
	}
	return uint16(q.send.ci % uint64(q.send.depth))
}

// execute executes a request. It returns nil for success, and if the request has to wait.
func (q *qp) execute(r *request) *failure {
	if s := q.failNext; s != statusOK {
		q.failNext = statusOK
		return &failure{s, reasonMemory, "injected fault"}
	}
	switch r.opcode {
	case opLocalInv:
		if err := q.invalidate(le.Uint32(r.wqe[4:])); err != nil {
			return local(statusMemory, reasonInvalidate, "%v", err)
		}
		return nil
	case opFastReg:
		return q.fastRegister(r.wqe[:])
	case opBind:
		return q.bindWindow(r.wqe[:])
	}
	need := rights(0)
	if r.opcode == opRead || r.opcode == opCompareSwap || r.opcode == opFetchAdd {
		need = localWrite
	}
	if f := q.gather(r, need); f != nil {
		return f
	}
	if q.kind != typeRC {
		return q.sendDatagram(r)
	}
	return q.exchange(r)
}

// exchange sends a request to the peer, and processes its answer.
func (q *qp) exchange(r *request) *failure {
	if !q.repeated {
		q.retries, q.rnrRetries = q.retryCount, q.rnrRetry
	}
	a := answer{}
	if p := q.peer(); p != nil {
		a = q.ask(p, r)
	}
	q.repeated = a.kind != ack
	switch a.kind {
	case silence:
		if q.timeout == 0 {
			q.blocked = true
			return nil
		}
		if q.retries == 0 {
			return &failure{statusRetries, reasonTimeout, "no answer"}
		}
		q.retries--
		q.d.count(countTimeouts)
		q.wait(4096 * time.Nanosecond << q.timeout)
	case notReady:
		q.d.count(countRNR)
		if q.rnrRetry != rnrForever {
			if q.rnrRetries == 0 {
				return &failure{statusRNRRetries, reasonRNR, "the peer has no receive"}
			}
			q.rnrRetries--
		}
		q.wait(a.after)
	case refused:
		return &failure{a.status, a.reason, "the peer has refused it"}
	case ack:
		if r.opcode == opRead || r.opcode == opCompareSwap || r.opcode == opFetchAdd {
			pci.Transfer(r.data, a.data)
		}
	}
	return nil
}

// ask sends a request to the peer, and returns the answer unless it is lost.
func (q *qp) ask(p *qp, r *request) answer {
	reads := r.opcode == opRead
	if reads {
		q.d.carry(p.d, 1, 0)
	} else {
		q.d.carry(p.d, r.psns, r.length)
	}
	a := p.respond(q, r)
	switch {
	case a.kind == silence || !p.d.sends():
		return answer{}
	case reads && a.kind == ack:
		p.d.carry(q.d, r.psns, r.length)
	default:
		p.d.carry(q.d, 1, 0)
	}
	return a
}

// wait repeats the next request later.
func (q *qp) wait(after time.Duration) {
	q.blocked = true
	q.timer.Start(q.d.fabric, after, func() {
		q.blocked = false
		q.run()
	})
}

// peer returns the connected QP, or nil without an answer from it.
func (q *qp) peer() *qp {
	source := q.d.gids[q.sgid]
	if source == nil || !q.d.sends() {
		return nil
	}
	for _, d := range q.d.fabric.devices {
		p := d.qps[q.remoteQPN]
		if p == nil || d.down || !d.hasGID(q.dgid) {
			continue
		}
		if p.kind != typeRC || p.state < stateRTR || p.state == stateError || p.remoteQPN != q.n || p.dgid != source.gid {
			q.d.trace("%s: QP %#x of %s in %v is not its peer", q.name(), p.n, d.o.Name, p.state)
			continue
		}
		return p
	}
	return nil
}

// fastRegister registers memory by a request.
func (q *qp) fastRegister(w []byte) *failure {
	wrong := func(format string, args ...any) *failure {
		return local(statusMemory, reasonFastReg, format, args...)
	}
	key, config, levels := le.Uint32(w[4:]), w[3], int(w[15]>>6)
	length := uint64(le.Uint32(w[8:])) | uint64(w[12])<<32
	table, start := le.Uint64(w[16:]), le.Uint64(w[24:])
	shift := uint(config&31) + 12
	m := q.d.mrs[key>>8]
	switch {
	case m == nil || m.kind != keyPhysical:
		return wrong("there is no region %#x that requests register", key)
	case m.pd != q.pd:
		return wrong("region %#x has PD %d, not %d", key, m.pd, q.pd)
	case m.valid:
		return wrong("region %#x is registered", key)
	case levels == 0 || levels > 2 || w[15]&31 != 0 || length == 0:
		return wrong("region %#x of %d bytes with tables of %d levels of size %d", key, length, levels, w[15]&31)
	}
	p := pci.Pages{Table: table &^ pageFlags, Levels: levels, LogNode: 12, Shift: shift, Flags: pageFlags, First: start & (1<<shift - 1)}
	p.N = (p.First + length + 1<<shift - 1) >> shift
	if err := p.Check(length, maxPages); err != nil {
		return wrong("region %#x: %v", key, err)
	}
	m.key, m.rights, m.start, m.length, m.pages, m.valid = key, rights(w[2]), start, length, p, true
	if config&(1<<5) != 0 {
		m.rights |= zeroBased
	}
	return nil
}

// bindWindow binds a memory window to a region, or ends its binding.
func (q *qp) bindWindow(w []byte) *failure {
	wrong := func(format string, args ...any) *failure {
		return local(statusMemory, reasonBind, format, args...)
	}
	access, kind := rights(w[2]), w[4]
	parentKey, key, start := le.Uint32(w[8:]), le.Uint32(w[12:]), le.Uint64(w[16:])
	length := uint64(le.Uint32(w[24:])) | uint64(w[28])<<32
	m := q.d.mrs[key>>8]
	type2 := kind&2 != 0
	switch {
	case m == nil || m.kind < keyWindow1 || type2 != (m.kind > keyWindow1):
		return wrong("there is no window %#x of this type", key)
	case m.pd != q.pd:
		return wrong("window %#x has PD %d, not %d", key, m.pd, q.pd)
	case type2 && m.valid:
		return wrong("window %#x is bound", key)
	}
	if length == 0 {
		m.unbind()
		m.key = key
		return nil
	}
	p := q.d.mrs[parentKey>>8]
	switch {
	case p == nil || p.key != parentKey || !p.valid || p.kind >= keyWindow1 || p.pd != q.pd:
		return wrong("there is no region %#x", parentKey)
	case p.rights&bind == 0 || access&(remoteWrite|remoteAtomic) != 0 && p.rights&localWrite == 0:
		return wrong("region %#x has rights %#x, for a window with %#x", parentKey, p.rights, access)
	case start < p.start || length > p.length || start-p.start > p.length-length:
		return wrong("%d bytes at %#x are not in region %#x", length, start, parentKey)
	}
	m.unbind()
	m.key, m.rights, m.start, m.length, m.parent, m.valid = key, access&(remoteRead|remoteWrite|remoteAtomic), start, length, p, true
	if kind&1 != 0 {
		m.rights |= zeroBased
	}
	if type2 {
		m.qp = q
	}
	p.windows++
	return nil
}
