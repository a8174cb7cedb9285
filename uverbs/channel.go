// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"context"
	"net"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/cdev"
)

// CompChannel is the file of a completion event channel. Each event names an armed completion queue
// that has had a completion. The channel must be closed before its File.
type CompChannel struct {
	f   *File
	dev *cdev.File
}

// CreateCompChannel makes a completion channel
// (IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL).
func (f *File) CreateCompChannel() (*CompChannel, error) {
	resp, err := runCommandResp[abi.UverbsCreateCompChannelResp](f, abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &abi.UverbsCreateCompChannel{}, Driver{})
	if err != nil {
		return nil, err
	}
	dev, err := cdev.New(int(int32(resp.FD)), "completion channel of "+f.info.Name)
	if err != nil {
		return nil, err
	}
	c := &CompChannel{f: f, dev: dev}
	if err := f.adopt(c); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *CompChannel) file() *cdev.File { return c.dev }

// SyscallConn returns the channel's file for a caller with a read loop of its own, such as
// package verbs. The error is nil. Do not use it and call Next. Pass the error of its method Read
// to ReadDone. Interrupt ends a Read, and all that follow, until Resume.
func (c *CompChannel) SyscallConn() (syscall.RawConn, error) { return c.dev.Conn(), nil }

// ReadDone returns the error of a Read of SyscallConn with the function read. If the channel has
// been closed, it is net.ErrClosed.
func (c *CompChannel) ReadDone(err error, read func(fd uintptr) bool) error {
	return c.dev.ReadDone(err, read)
}

// Interrupt ends a Read of SyscallConn with os.ErrDeadlineExceeded.
func (c *CompChannel) Interrupt() { c.dev.Interrupt() }

// Resume lets Reads of SyscallConn wait again.
func (c *CompChannel) Resume() { c.dev.Resume() }

// adopt makes the file close the channel with itself.
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

// Next waits for one event until ctx ends, and returns the user handle of its completion
// queue. It may be called concurrently. It returns EIO after the device was removed,
// io.ErrUnexpectedEOF for an event that is cut off, and net.ErrClosed after Close.
func (c *CompChannel) Next(ctx context.Context) (userHandle uint64, err error) {
	var event abi.UverbsCompEventDesc
	err = nextEvent(ctx, c.dev, abi.Bytes(&event))
	return event.CQHandle, err
}

// ReadCompEvent reads one event from the descriptor of a completion channel by a raw system
// call and returns the user handle of its completion queue. If there is no event, again is
// true. It returns the errors of Next.
func ReadCompEvent(fd uintptr) (userHandle uint64, again bool, err error) {
	var event abi.UverbsCompEventDesc
	again, err = readEvent(fd, abi.Bytes(&event))
	return event.CQHandle, again, err
}

// nextEvent waits for one event of an event file until ctx ends.
func nextEvent(ctx context.Context, dev *cdev.File, event []byte) error {
	var rerr error
	err := dev.Wait(ctx, func(fd uintptr) bool {
		var again bool
		again, rerr = readEvent(fd, event)
		return !again
	})
	if err != nil {
		return err
	}
	return rerr
}

// Close closes the channel and ends its Next. It may be called more than once.
func (c *CompChannel) Close() error {
	c.f.abandon(c)
	return c.dev.Close()
}
