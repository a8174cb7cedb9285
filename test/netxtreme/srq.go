// SPDX-License-Identifier: Apache-2.0

package netxtreme

import "fmt"

// srq is a shared receive queue.
type srq struct {
	d      *Device
	n      uint32
	handle uint64
	dpi    uint32
	pd     uint32
	nq     *nq
	queue  workQueue
	users  int // QPs
	limit  uint32
	arming
}

// receiveSize is the size in bytes of a receive of an SRQ.
const receiveSize = (2 + maxSGE) * entrySize

func (s *srq) name() string { return fmt.Sprintf("SRQ %#x", s.n) }

func createSRQ(d *Device, in []byte, answer *[entrySize]byte, _ []byte) (err error) {
	pages := le.Uint16(in[0x18:])
	s := &srq{d: d, handle: le.Uint64(in[0x10:]), dpi: le.Uint32(in[0x20:]), pd: le.Uint32(in[0x24:]), nq: d.nqs[le.Uint16(in[0x1a:])&0xfff]}
	if s.nq == nil {
		return invalid("there is no notification queue %d", le.Uint16(in[0x1a:])&0xfff)
	}
	if s.queue, err = d.newWorkQueue(le.Uint64(in[0x28:]), int(pages&3), uint8(pages>>2&7), uint32(le.Uint16(in[0x1c:])), receiveSize, 2*maxSRQWR, 0); err != nil {
		return err
	}
	var ok bool
	if s.n, ok = number(d, d.srqs, "SRQ", 1, maxSRQ); !ok {
		return refuse(channelNoResource, "there are %d SRQs", len(d.srqs))
	}
	d.srqs[s.n] = s
	s.nq.users++
	le.PutUint32(answer[4:], s.n)
	return nil
}

// srq returns the SRQ with a number.
func (d *Device) srq(n uint32) (*srq, error) {
	s := d.srqs[n]
	if s == nil {
		return nil, invalid("there is no SRQ %#x", n)
	}
	return s, nil
}

func destroySRQ(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	s, err := d.srq(le.Uint32(in[0x10:]))
	switch {
	case err != nil:
		return err
	case s.users > 0:
		return invalid("%s has %d QPs", s.name(), s.users)
	}
	s.nq.users--
	delete(d.srqs, s.n)
	le.PutUint32(answer[4:], s.n)
	return nil
}

func querySRQ(d *Device, in []byte, answer *[entrySize]byte, side []byte) error {
	s, err := d.srq(le.Uint32(in[0x10:]))
	switch {
	case err != nil:
		return err
	case len(side) < 0x20:
		return invalid("%d bytes for the answer", len(side))
	}
	le.PutUint32(side[8:], s.n)
	if s.armed {
		le.PutUint16(side[0xc:], uint16(s.limit))
	}
	le.PutUint32(answer[4:], s.n)
	return nil
}

// ring handles a doorbell. It contains the index of posted receives, or a limit.
func (s *srq) ring(kind uint8, index uint32, toggle uint8) {
	switch kind {
	case doorbellSRQArmEna: // the device does not wait for it
	case doorbellSRQArm:
		if s.arm(s.d, toggle) {
			s.limit, s.armed = index, index > 0
			s.checkLimit()
		}
	default:
		if !s.queue.produce(index) {
			s.d.violation(s.name(), "a doorbell with index %#x, but the device is at %#x with %d of %d receives", index, s.queue.pi, s.queue.posted(), s.queue.depth)
		}
	}
}

// checkLimit writes a notification if the queue has fewer receives than its limit.
func (s *srq) checkLimit() {
	if !s.armed || s.queue.posted() >= uint64(s.limit) {
		return
	}
	const thresholdEvent = 1
	var e [entrySize]byte
	e[0], e[1] = notifySRQ|s.disarm(s.d)<<6, thresholdEvent
	le.PutUint32(e[4:], uint32(s.handle))
	le.PutUint32(e[12:], uint32(s.handle>>32))
	s.nq.notify(e)
}
