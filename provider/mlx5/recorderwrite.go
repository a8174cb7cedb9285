// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"purerdma/provider"
)

// WriteTo writes the recording as text, one JSON object a line, and returns the number of its bytes.
// The driver's tests can replay it. README.md of test/oracle describes the format. The recording has addresses and keys of the program's
// memory. Posts to recorded QPs and polls of recorded CQs wait while WriteTo copies the operations,
// which takes about a millisecond. WriteTo may be called any number of times. It returns the error
// of w.
func (r *Recorder) WriteTo(w io.Writer) (int64, error) {
	ops, arms, lost := r.copy()
	t := &recording{w: w, seen: map[int]bool{}}
	t.line(`{"t":"file","format":1,"driver":"mlx5","device":%q,"lost":%d}`, r.device, lost)
	t.line(`{"t":"open","name":"recording"}`)
	for at := lost; len(ops) > 0; {
		for ; len(arms) > 0 && arms[0].at <= at; arms = arms[1:] {
			t.arm(&arms[0])
		}
		n := 1 + slices.IndexFunc(ops, func(o recorded) bool { return o.last })
		t.list(ops[:n])
		ops, at = ops[n:], at+uint64(n)
	}
	for i := range arms {
		t.arm(&arms[i])
	}
	return t.n, t.err
}

// copy returns the kept operations from the oldest complete list on, and the number of all others. It also returns the kept requests
// for events that are not older.
func (r *Recorder) copy() (ops []recorded, arms []recordedArm, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(len(r.ops))
	lost = r.next - min(r.next, size)
	ops = append(slices.Clone(r.ops[lost%size:min(size, r.next)]), r.ops[:lost%size]...)
	for len(ops) > 0 && !ops[0].first {
		ops = ops[1:]
		lost++
	}
	for n := r.armed - min(r.armed, recordedArms); n < r.armed; n++ {
		if a := r.arms[n%recordedArms]; a.at >= lost {
			arms = append(arms, a)
		}
	}
	return ops, arms, lost
}

// recording writes a Recorder's operations.
type recording struct {
	w    io.Writer
	n    int64
	err  error
	seen map[int]bool // the queues that were written, by number
}

// line writes a line, unless an earlier one failed.
func (t *recording) line(format string, args ...any) {
	if t.err != nil {
		return
	}
	n, err := fmt.Fprintf(t.w, format+"\n", args...)
	t.n, t.err = t.n+int64(n), err
}

// list writes the operations of one list, after the queues that they name.
func (t *recording) list(ops []recorded) {
	o := &ops[len(ops)-1]
	t.qp(o.qp)
	t.srq(o.srq)
	t.cq(o.cq)
	switch o.kind {
	case recordedSend:
		t.sends(ops, o)
	case recordedRecv:
		t.receives(ops, o)
	case recordedCQE:
		t.completion(o)
	case recordedSRQRecv, recordedRepost:
		t.srqReceives(ops, o)
	}
}

// name returns the name of a queue that may be nil.
func (q *recordedQP) name() string {
	if q == nil {
		return ""
	}
	return fmt.Sprintf("qp%d", q.seq)
}

// name returns the name of a queue that may be nil.
func (c *recordedCQ) name() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("cq%d", c.seq)
}

// recordedTypes has the names of types of QPs.
var recordedTypes = map[provider.QPType]string{
	provider.RC: "RC", provider.UC: "UC", provider.UD: "UD", provider.RawPacket: "RAW_PACKET",
	provider.XRCSend: "XRC_SEND", provider.XRCRecv: "XRC_RECV", typeDC: "DCI",
}

func (t *recording) qp(q *recordedQP) {
	if q == nil || t.seen[q.seq] {
		return
	}
	t.seen[q.seq] = true
	t.cq(q.sendCQ)
	t.cq(q.recvCQ)
	t.srq(q.srq)
	typ := recordedTypes[q.typ]
	if q.target {
		typ = "DCT"
	}
	more := ""
	if q.srq != nil {
		more = fmt.Sprintf(`,"srq":%q`, q.srq.name())
	}
	if q.lsoHeader > 0 {
		more += fmt.Sprintf(`,"tso_header":%d`, q.lsoHeader)
	}
	p := q.cap
	t.line(`{"t":"qp","id":%q,"type":%q,"scq":%q,"rcq":%q,"got_cap":[%d,%d,%d,%d,%d],"qpn":%d,"bf":%d%s}`,
		q.name(), typ, q.sendCQ.name(), q.recvCQ.name(), p.SendWR, p.RecvWR, p.SendSGE, p.RecvSGE, p.Inline, q.num, q.half, more)
}

func (t *recording) cq(c *recordedCQ) {
	if c == nil || t.seen[c.seq] {
		return
	}
	t.seen[c.seq] = true
	t.line(`{"t":"cq","id":%q,"cqe":%d,"got":%[2]d,"cqe_size":%d}`, c.name(), c.entries, c.size)
}

// requestIDs returns the requests of a list.
func requestIDs(ops []recorded) []byte {
	var b []byte
	for i := range ops {
		b = fmt.Appendf(b, `,{"id":%d}`, ops[i].id)
	}
	return b[1:]
}

// poison fills the ends of blocks that a WQE does not use, as in the oracle's vectors.
const poison = 0xcc

func (t *recording) sends(ops []recorded, last *recorded) {
	var wqes []byte
	for i := range ops {
		o := &ops[i]
		wqes = append(wqes, o.data[:o.size]...)
		wqes = append(wqes, bytes.Repeat([]byte{poison}, -int(o.size)&(wqebb-1))...)
	}
	store := last.data[:8]
	if last.blocks > 0 {
		store = wqes // of the only request
	}
	t.line(`{"t":"send","qp":%q,"wrs":[%s],"bad":-1,"at":%d,"slots":%d,"wqe":"%x","db":%d,"uar":[{"at":%d,"bytes":"%x"}]}`,
		last.qp.name(), requestIDs(ops), ops[0].at&0xffff, len(wqes)/wqebb, wqes, last.record, last.register, store)
}

func (t *recording) receives(ops []recorded, last *recorded) {
	var slots []byte
	for i := range ops {
		slots = fmt.Appendf(slots, `,"%x"`, ops[i].data[:ops[i].size])
	}
	t.line(`{"t":"recv","on":%q,"wrs":[%s],"bad":-1,"at":%d,"slots":[%s],"db":%d}`,
		last.qp.name(), requestIDs(ops), ops[0].at&0xffff, slots[1:], last.record)
}

func (t *recording) arm(a *recordedArm) {
	t.cq(a.cq)
	t.line(`{"t":"arm","cq":%q,"solicited":%d,"ci":%d,"arm":%d,"uar":[{"at":%d,"bytes":"%08x%08x"}]}`,
		a.cq.name(), a.word>>24&1, a.word&0xffffff, a.word, uarArm, a.word, a.num)
}

func (t *recording) completion(o *recorded) {
	var wcs []byte
	if w := &o.wc; o.n == 1 {
		wcs = fmt.Appendf(wcs, `{"id":%d,"status":%d,"vendor_err":%d,"qpn":%d`, w.ID, w.Status, w.VendorErr, w.QPNum)
		if w.Status == provider.WCSuccess {
			wcs = fmt.Appendf(wcs, `,"opcode":%d,"byte_len":%d,"src_qp":%d,"flags":%d,"pkey_index":%d,"slid":%d,"sl":%d,"path_bits":%d,"imm":%d,"inv":%d`,
				w.Opcode, w.ByteLen, w.SrcQP, w.Flags, w.PKeyIndex, w.SLID, w.SL, w.DLIDPathBits, w.ImmData, w.InvalidatedRKey)
		}
		wcs = append(wcs, '}')
	}
	of := o.qp.name()
	if o.srq != nil {
		of = o.srq.name()
	}
	t.line(`{"t":"poll","cq":%q,"cqes":[{"of":%q,"slot":%d,"bytes":"%x"}],"max":%d,"n":%d,"wcs":[%s],"ci":%d}`,
		o.cq.name(), of, o.at&uint32(o.cq.entries), o.data[:o.size], max(o.n, 1), o.n, wcs, (o.at+1)&0xffffff)
}
