// SPDX-License-Identifier: Apache-2.0

package tracediff

import (
	"encoding/binary"
	"fmt"

	"purerdma/test/connectx/prm"
)

// Kinds lists the kinds of a QP's lines from Seen, in their order.
var Kinds = []string{"made", "sends-to", "receives-to", "shares", "uses", "request", "doorbell", "receive", "arms", "completion", "received"}

// device is a device in a trace, with the last created object of each number.
type device struct {
	queues map[uint64]*queue
	cqs    map[uint64]*cq
	srqs   map[uint64]string // descriptions
	mkeys  map[uint64]*mkey  // by index
}

func newDevice() *device {
	return &device{queues: make(map[uint64]*queue), cqs: make(map[uint64]*cq), srqs: make(map[uint64]string), mkeys: make(map[uint64]*mkey)}
}

// cq is a completion queue.
type cq struct {
	made  string
	armed []string // descriptions of its arming, each once
}

// queue is a QP.
type queue struct {
	d          *device
	service    string
	sender     bool
	made       string
	send, recv *cq    // nil if it has none.
	srq        string // description, "" if it has none.
	seen       map[string][]string
	last       uint16 // index of the last request.
	keys       map[uint32]key
	used       map[uint32]bool // keys that have been reported.
	store      *store          // current store, which may continue
}

// take processes a line. It returns the QP if the line is a request.
func (d *device) take(l line) (*queue, error) {
	switch l.kind {
	case "command":
		return nil, d.create(l.text, l.bytes[0], l.bytes[1])
	case "completion":
		return nil, d.completion(l.numbers[0], l.bytes[0])
	case "doorbell":
		d.doorbell(l)
		return nil, nil
	case "receive":
		return nil, d.queue(l.numbers[1]).receive(l.bytes[0])
	}
	if w := l.bytes[0]; len(w) >= prm.Octoword && prm.Ctrl.Opcode.Get(w) == prm.WQEUMR {
		if err := d.umr(w); err != nil {
			return nil, err
		}
	}
	q := d.queue(l.numbers[1])
	sent, err := q.request(l.text, uint16(l.numbers[0]), l.bytes[0])
	if !sent {
		q = nil
	}
	return q, err
}

// queue returns the QP of a number. It may have been created before the trace.
func (d *device) queue(n uint64) *queue {
	q := d.queues[n]
	if q == nil {
		q = &queue{d: d, seen: make(map[string][]string), keys: make(map[uint32]key), used: make(map[uint32]bool)}
		d.queues[n] = q
	}
	return q
}

func (q *queue) saw(kind, format string, args ...any) {
	q.seen[kind] = append(q.seen[kind], fmt.Sprintf(format, args...))
}

// words returns all lines of the QP.
func (q *queue) words() (all []string) {
	q.endStore()
	one := func(kind, text string) {
		if text != "" {
			q.seen[kind] = []string{text}
		}
	}
	one("made", q.made)
	one("shares", q.srq)
	if q.send != nil {
		one("sends-to", q.send.made)
		q.seen["arms"] = q.send.armed
	}
	if q.recv != nil && q.recv != q.send {
		one("receives-to", q.recv.made)
		q.seen["arms"] = append(q.seen["arms"], q.recv.armed...)
	}
	for _, kind := range Kinds {
		for _, text := range q.seen[kind] {
			if text = excuse(kind + " " + text); text != "" {
				all = append(all, text)
			}
		}
	}
	return all
}

// request processes the start of a request. It returns whether a program sent the request.
func (q *queue) request(service string, index uint16, wqe []byte) (bool, error) {
	q.service = service
	if len(wqe) >= prm.Octoword && prm.Ctrl.Opcode.Get(wqe) == prm.WQENop {
		return false, nil // a driver tests its ways of posting with them
	}
	if len(q.seen["request"]) > 0 && int16(index-q.last) <= 0 {
		return true, nil // a repetition, because the peer was not ready
	}
	q.last = index
	text, err := q.requestWords(wqe)
	if err == nil {
		q.saw("request", "%s", text)
	}
	return true, err
}

// receive processes a receive that a message uses.
func (q *queue) receive(wqe []byte) error {
	if len(wqe)%prm.Octoword != 0 {
		return fmt.Errorf("a receive of %d bytes", len(wqe))
	}
	text := ""
	for ; len(wqe) > 0; wqe = wqe[prm.Octoword:] {
		if prm.DataSeg.LKey.Get(wqe) == prm.ReservedLKey {
			text += " end"
			break
		}
		text += " " + q.element(wqe)
	}
	q.saw("receive", "of%s", text)
	return nil
}

// completion processes a completion of a QP.
func (d *device) completion(cqn uint64, e []byte) error {
	if len(e) != prm.CQELen {
		return fmt.Errorf("a completion of %d bytes", len(e))
	}
	c := &prm.CQE
	q := d.queue(c.QPN.Get(e))
	op, kind := c.Opcode.Get(e), "completion"
	switch op {
	case prm.CQEResize:
		return nil
	case prm.CQEReq, prm.CQEReqErr:
	default:
		kind = "received"
	}
	switch op {
	case prm.CQEReqErr, prm.CQERespErr:
		q.saw(kind, "%#x of %#x syndrome %#x", op, c.WQECounter.Get(e), c.Syndrome.Get(e))
	default:
		text := fmt.Sprintf("%#x of %#x, %d bytes, format %d, solicited %d", op, c.WQECounter.Get(e), c.ByteCount.Get(e), c.Format.Get(e), c.Solicited.Get(e))
		if op == prm.CQERespImm || op == prm.CQERespWrite {
			text += fmt.Sprintf(", imm %#x", c.Imm.Get(e))
		}
		q.saw(kind, "%s", text)
	}
	return nil
}

// store is one or more related stores to a doorbell register.
type store struct {
	page, offset uint64 // of the register
	bytes        []byte
	posted       uint32 // posted WQEBBs, from the doorbell record
}

// sendRegisters is the offset of the send queues' registers in a page. Each of them has
// registerSize bytes.
const (
	sendRegisters = 0x800
	registerSize  = 0x100
	armRegister   = 0x20
)

// doorbell processes a store to a register. A BlueFlame copy from a virtual machine arrives as
// stores of 8 bytes.
func (d *device) doorbell(l line) {
	page, off, p := l.numbers[0], l.numbers[1], l.bytes[0]
	if off == armRegister && len(p) == 8 {
		if q := d.cqs[uint64(binary.BigEndian.Uint32(p[4:]))]; q != nil {
			q.arm(binary.BigEndian.Uint32(p))
		}
		return
	}
	if off < sendRegisters {
		return
	}
	if len(l.bytes) > 1 && len(p) >= 8 && len(l.bytes[1]) == prm.DoorbellRecordLength {
		q := d.queue(prm.Ctrl.QPN.Get(p))
		q.endStore()
		q.store = &store{page, off, p, binary.BigEndian.Uint32(l.bytes[1][4:])}
		return
	}
	for _, q := range d.queues {
		if s := q.store; s != nil && s.page == page && s.offset+uint64(len(s.bytes)) == off {
			s.bytes = append(s.bytes, p...)
			return
		}
	}
}

// endStore reports a complete store.
func (q *queue) endStore() {
	s := q.store
	if q.store = nil; s == nil || prm.Ctrl.Opcode.Get(s.bytes) == prm.WQENop {
		return
	}
	q.saw("doorbell", "of request %#x, %d bytes, buffer %d, record %#x", prm.Ctrl.Index.Get(s.bytes), len(s.bytes),
		s.offset/registerSize%2, s.posted)
}

// arm records each way of arming a CQ once.
func (c *cq) arm(word uint32) {
	text := "for any completion"
	if word&prm.ArmSolicited != 0 {
		text = "for solicited ones"
	}
	for _, t := range c.armed {
		if t == text {
			return
		}
	}
	c.armed = append(c.armed, text)
}
