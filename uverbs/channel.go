// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"net"

	"purerdma/abi"
	"purerdma/internal/cdev"
)

// CompChannel is a completion event channel: the file that says which armed
// completion queues have had a completion. It must be closed before its File.
type CompChannel struct {
	f   *File
	dev *cdev.File

	// Of the one Next that may run at a time.
	look    func() Verdict
	try     func(fd uintptr) bool // c.read, made once
	event   abi.UverbsCompEventDesc
	stopped bool
	err     error
}

// CreateCompChannel makes a completion channel
// (IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL).
func (f *File) CreateCompChannel() (*CompChannel, error) {
	resp, err := invoke[abi.UverbsCreateCompChannelResp](f, abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &abi.UverbsCreateCompChannel{}, Driver{})
	if err != nil {
		return nil, err
	}
	dev, err := cdev.New(int(int32(resp.FD)), "completion channel of "+f.info.Name)
	if err != nil {
		return nil, err
	}
	c := &CompChannel{f: f, dev: dev}
	c.try = c.read
	if err := f.adopt(c); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *CompChannel) file() *cdev.File { return c.dev }

// adopt makes a channel one that the file closes with itself.
func (f *File) adopt(c eventChannel) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed.Load() {
		c.file().Close()
		return net.ErrClosed
	}
	f.channels[c] = struct{}{}
	return nil
}

// abandon is the inverse of adopt.
func (f *File) abandon(c eventChannel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.channels, c)
}

// Verdict is what a look before a read found.
type Verdict uint8

// Verdicts.
const (
	ReadFirst Verdict = iota // there may be events: read one, or wait for one
	Park                     // there is no event yet: wait for one
	Stop                     // there is no need to wait
)

// Next waits for one event and returns the user handle of its completion queue.
// Only one Next may run at a time. After Interrupt it ends with
// os.ErrDeadlineExceeded, after Close with net.ErrClosed.
//
// If look is not nil, it is called when no event can be missed any more, and decides
// how to go on: whoever arms a queue in it, and knows that no event was to come
// before, saves a read that would find nothing. It is called again when the channel has
// become readable: whoever finds there what he waits for may leave the event to the
// next one. After Stop, ok is false.
func (c *CompChannel) Next(look func() Verdict) (userHandle uint64, ok bool, err error) {
	c.look, c.stopped, c.err = look, false, nil
	if err := c.dev.Park(c.try); err != nil {
		return 0, false, err
	}
	return c.event.CQHandle, !c.stopped, c.err
}

// read is one attempt to take an event out of the channel. It returns false if
// there is none.
func (c *CompChannel) read(fd uintptr) bool {
	if c.look != nil {
		switch c.look() {
		case Stop:
			c.stopped = true
			return true
		case Park:
			return false
		}
	}
	var again bool
	again, c.err = readEvent(fd, abi.Bytes(&c.event))
	return !again
}

// Interrupt ends the Next that runs, and those to come until Resume.
func (c *CompChannel) Interrupt() { c.dev.Interrupt() }

// Resume ends the effect of Interrupt.
func (c *CompChannel) Resume() { c.dev.Resume() }

// Close closes the channel and ends its Next. It may be called more than once.
func (c *CompChannel) Close() error {
	c.f.abandon(c)
	return c.dev.Close()
}
