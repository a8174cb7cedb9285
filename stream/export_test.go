// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"purerdma/cm"
	"purerdma/verbs"
)

// WithoutRNR returns the options with connections that fail if a message finds no posted receive.
func (o Options) WithoutRNR() Options {
	o.rnrRetry = cm.None
	return o
}

// Frame encodes a frame.
func Frame(flags uint8, sent, granted uint32, data []byte) []byte {
	b := make([]byte, frameLen, frameLen+len(data))
	(&frame{flags, len(data), sent, granted}).put(b)
	return append(b, data...)
}

// Hello encodes a hello.
func Hello(features uint8, slot, credits int) []byte { return hello{features, slot, credits}.encode() }

// Names for tests.
const (
	FlagFIN     = flagFIN
	FlagFINAck  = flagFINAck
	BaseWindow  = baseWindow
	FrameLen    = frameLen
	DefaultSlot = defaultSlot
)

// HalfTime is halfTime.
var HalfTime = halfTime

// Window returns the number of receives for this connection.
func (c *Conn) Window() int {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	return c.l.recv.window
}

// QP returns the QP of the connection.
func (c *Conn) QP() *verbs.QP { return c.l.conn.QP() }

// QPCap returns the capacities of the QP of a connection with the default options.
func QPCap() verbs.QPCap { return (&Options{Slot: defaultSlot, Window: defaultWindow}).qp().Cap }

// Sent returns the number of credits that the connection has used.
func (c *Conn) Sent() uint32 {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	return c.l.send.sent
}

// InFlight returns the number of frames whose completions have not been taken.
func (c *Conn) InFlight() int {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	return c.l.send.inFlight
}

// Quiet returns the number of frames that two connected sides have sent, and whether all of them were
// taken.
func Quiet(a, b *Conn) (sent uint32, quiet bool) {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	sent = a.l.send.sent + b.l.send.sent
	return sent, sent == a.l.recv.received+b.l.recv.received
}

// NearWrap adds to the counts of credits of two connected sides, so that they soon wrap around. Nothing may be in
// flight.
func NearWrap(a, b *Conn) {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	for _, pair := range [][2]*link{{a.l, b.l}, {b.l, a.l}} {
		from, to := pair[0], pair[1]
		more := ^from.send.sent - 5
		from.send.sent += more
		from.send.granted += more
		from.send.idleSent += more
		to.recv.received += more
		to.recv.announced += more
		to.send.idleReceived += more
	}
}

// FreeCredits returns the number of receives that belong to no connection.
func (s *Shared) FreeCredits() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.budgets {
		b.mu.Lock()
		n += b.free
		b.mu.Unlock()
	}
	return n
}

// FailSend calls f, and then reports a failed send. Messages that arrive during f are handled afterwards.
func (c *Conn) FailSend(f func()) {
	c.l.mu.Lock()
	defer c.l.unlock()
	f()
	c.l.lost(&verbs.WCError{Status: verbs.WCRetryExcErr})
}
