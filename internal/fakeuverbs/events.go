// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"syscall"

	"purerdma/abi"
	"purerdma/uverbs"
)

func (c *Context) handleChannels() {
	c.Command(abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, func(cmd *Command) error {
		r, w, err := pipe()
		if err != nil {
			return err
		}
		// The program may have closed a reading end of the same number.
		if old, ok := c.channels[r]; ok {
			syscall.Close(fd(old))
		}
		c.channels[r] = w
		Answer(cmd, &abi.UverbsCreateCompChannelResp{FD: uint32(r)})
		return nil
	})
}

func (c *Context) handleAsync() {
	c.Handle(abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC, func(req *uverbs.Request) error {
		r, w, err := pipe()
		if err != nil {
			return err
		}
		c.async = append(c.async, w)
		req.Find(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE).Value = uint64(r)
		return nil
	})
}

// Channel is the writing end of a completion channel. The zero Channel is none.
type Channel struct {
	fd   int
	some bool
}

// Channel returns the completion channel that a request names in an attribute,
// which it need not have.
func (c *Context) Channel(req *uverbs.Request, id uint16) (Channel, error) {
	a := req.Find(id)
	if a == nil {
		return Channel{}, nil
	}
	w, ok := c.channels[int(a.Value)]
	if !ok {
		return Channel{}, syscall.EBADF
	}
	return Channel{w, true}, nil
}

// Is says whether it is a channel.
func (ch Channel) Is() bool { return ch.some }

// Complete puts one event of a completion queue on the channel, if it is one. The
// queue keeps it, so that an event allocates nothing.
func (ch Channel) Complete(event *abi.UverbsCompEventDesc) {
	if ch.some {
		syscall.Write(fd(ch.fd), abi.Bytes(event))
	}
}

// Event puts an asynchronous event on the files of the context: all of them, if
// it is about a port or the device, else the first.
func (c *Context) Event(typ uverbs.EventType, element uint64) {
	files := c.async
	if e := typ.Element(); e != uverbs.ElementPort && e != uverbs.ElementDevice {
		files = files[:min(len(files), 1)]
	}
	for _, w := range files {
		syscall.Write(fd(w), abi.Bytes(&abi.UverbsAsyncEventDesc{Element: element, EventType: uint32(typ)}))
	}
}

func (c *Context) closeEvents() {
	for _, w := range c.channels {
		syscall.Close(fd(w))
	}
	for _, w := range c.async {
		syscall.Close(fd(w))
	}
}
