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
		// The program may have closed an earlier reading end with this number.
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

// Channel is the writing end of a completion channel. The zero value is no channel.
type Channel struct {
	fd   int
	some bool
}

// Channel returns the completion channel in an optional attribute of a request.
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

// Is reports whether the Channel is not the zero value.
func (ch Channel) Is() bool { return ch.some }

// Complete writes one event of a completion queue to the channel, unless it is zero. The queue keeps
// the event, so that writing it does not allocate.
func (ch Channel) Complete(event *abi.UverbsCompEventDesc) {
	if ch.some {
		syscall.Write(fd(ch.fd), abi.Bytes(event))
	}
}

// Event writes an asynchronous event to the event files of the context. An event of a port or of the
// device goes to all files, and any other event to the first file.
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
