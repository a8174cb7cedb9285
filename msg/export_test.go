// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"cmp"
	"encoding/binary"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// ForTests returns the options with connections that fail if a message finds no posted receive. A cancelled
// call that lends memory and the end of a loan wait longer, because a loaded machine may delay the peer.
func (o Options) ForTests() Options {
	o.rnrRetry, o.grace, o.unbind = cm.None, cmp.Or(o.grace, time.Minute), cmp.Or(o.unbind, time.Minute)
	return o
}

// WithUnbind returns the options with another time that the end of a loan waits for the device, also after the end
// of a context.
func (o Options) WithUnbind(d time.Duration) Options {
	o.grace, o.unbind = d, d
	return o
}

// WithGrace returns the options with another time that a cancelled call waits for the answer.
func (o Options) WithGrace(d time.Duration) Options {
	o.grace = d
	return o
}

// Frame encodes a frame.
func Frame(k uint8, sent, granted, call, confirmed uint32, tag uint64, data []byte) []byte {
	b := make([]byte, headerLen, headerLen+len(data))
	(&frame{kind: kind(k), length: len(data), sent: sent, granted: granted, call: call, confirmed: confirmed, tag: tag}).put(b)
	return append(b, data...)
}

// Lending changes the frame of a request, whose data begins with lent memory.
func Lending(b []byte, flags uint8, parts uint16) []byte {
	b[1] = flags
	binary.BigEndian.PutUint16(b[2:], parts)
	return b
}

// Hello encodes a hello.
func Hello(slot, window, calls int) []byte { return hello{slot, window, calls}.encode() }

// Kinds of frames for tests.
const (
	KindCredit    = uint8(kindCredit)
	KindMessage   = uint8(kindMessage)
	KindRequest   = uint8(kindRequest)
	KindReply     = uint8(kindReply)
	KindFailure   = uint8(kindFailure)
	KindCancel    = uint8(kindCancel)
	KindCancelled = uint8(kindCancelled)
	KindPart      = uint8(kindPart)
	KindMore      = uint8(kindMore)
	KindMoreTaken = uint8(kindMoreTaken)
	LentRead      = lentRead
	LentWrite     = lentWrite
	Kinds         = uint8(kinds)
	HeaderLen     = headerLen
)

// Frames returns the number of frames that were sent, without answers to calls and cancellations.
func (c *Conn) Frames() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send.sent + c.send.grants
}

// NearWrap adds to the counts of credits and grants of two connected sides, so that they soon wrap around. Nothing may
// be in flight.
func NearWrap(a, b *Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pair := range [][2]*Conn{{a, b}, {b, a}} {
		s, r := &pair[0].send, &pair[1].recv
		credits, grants := ^s.granted-5, ^s.grants-1
		s.sent += credits
		s.granted += credits
		r.received += credits
		r.announced += credits
		s.grants += grants
		s.confirmed += grants
		r.grants += grants
		r.confirmed += grants
	}
}

// Wrapped reports whether the counts of credits and of grants have wrapped around after NearWrap.
func (c *Conn) Wrapped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.send.sent, c.send.grants) < 1<<31
}

// Idle returns the number of calls that are not in progress, and of all calls that were made.
func (c *Conn) Idle() (unused, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls.unused), len(c.calls.all)
}

// Parts returns the number of parts that Next has not returned.
func (c *Conn) Parts() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.calls.all {
		n += cl.stream.parts.Len()
	}
	return n
}

// Fail ends the connection for its users, as an error does. The QP goes on.
func (c *Conn) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(err)
}

// QP returns the QP of the connection.
func (c *Conn) QP() *verbs.QP { return c.conn.QP() }

// BreakQP moves the QP of the connection to the error state.
func (c *Conn) BreakQP(t testing.TB) {
	t.Helper()
	if err := c.QP().Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); err != nil {
		t.Fatalf("Modify() = %v", err)
	}
}

// Window returns the number of messages that the peer can send before the program frees one.
func (c *Conn) Window() int { return c.recv.window }

// Windows returns the number of unused windows.
func (c *Conn) Windows() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.loans.windows)
}

// Bulk returns the bytes of the chunks in flight in both directions, and whether neither direction may have another
// chunk of the usual length.
func (c *Conn) Bulk() (bytes int, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads.bytes + c.writes.bytes, !c.reads.free(chunkLen) && !c.writes.free(chunkLen)
}

// BulkPosted returns the bytes of the READs and WRITEs that the connection has posted.
func (c *Conn) BulkPosted() uint64 {
	sends := c.conn.QP().Stats().Sends
	return sends[verbs.OpRead].Bytes + sends[verbs.OpWrite].Bytes
}

// BulkWaiting returns the number of transfers that wait for room for a chunk.
func (c *Conn) BulkWaiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads.waiting.Len() + c.writes.waiting.Len()
}

// Pending returns the number of operations that have not completed.
func (c *Conn) Pending() int { return c.queue.Pending() }
