// SPDX-License-Identifier: Apache-2.0

package rsocket

import "purerdma/verbs"

// QP returns the QP of the connection.
func (c *Conn) QP() *verbs.QP { return c.l.qp }

// Sent returns the number of messages that took a credit, modulo 2^16.
func (c *Conn) Sent() uint16 {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	return c.l.send.seq
}

// NearWrap adds to the counts of messages of two connected sides, so that they soon wrap around. Nothing may be in
// flight.
func NearWrap(a, b *Conn) {
	for _, pair := range [][2]*link{{a.l, b.l}, {b.l, a.l}} {
		from, to := pair[0], pair[1]
		from.mu.Lock()
		to.mu.Lock()
		more := ^from.send.seq - 5
		from.send.seq += more
		from.send.lastSeq += more
		to.recv.seq += more
		to.recv.creditAt += more
		to.mu.Unlock()
		from.mu.Unlock()
	}
}
