// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"fmt"
	"syscall"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Request is a call that lends memory, or has several replies.
type Request struct {
	Tag uint64
	// Data is copied. It has at most Conn.MaxLen bytes, less 20 for Read and for Write if they have bytes.
	Data []byte
	// Read is memory that the peer may read, and Write is memory that it may write, until it has answered:
	// see Message.ReadLent and Message.WriteLent. They are for data that is longer than a message.
	Read, Write Memory
	// Parts is the number of parts that can arrive before the program frees one. It is for Conn.Stream.
	Parts int
}

// errParts reports a Request for another method.
var (
	errParts   = fmt.Errorf("a request with Parts is for Stream: %w", syscall.EINVAL)
	errNoParts = fmt.Errorf("a stream of replies needs Request.Parts of 1 to Options.Calls - 1: %w", syscall.EINVAL)
)

// Do makes a call, as Call does, and lends memory for its time. When Do returns, the peer can no longer
// reach the memory, whether the call has succeeded or not. Then the program may use the memory
// for other purposes. So after the end of ctx, Do waits until the peer has answered, but at most a second. A
// peer that uses the memory after that loses the connection. The connection also ends if the device does
// not take the memory back within another second, or within 20 seconds if ctx has not ended.
//
// The bytes that the peer has written are complete when Do returns the reply.
func (c *Conn) Do(ctx context.Context, r *Request) (*Message, error) {
	cdev.NeedContext(ctx)
	m, err := c.do(ctx, r)
	if err != nil {
		return nil, c.opError(opCall, err)
	}
	return m, nil
}

func (c *Conn) do(ctx context.Context, r *Request) (*Message, error) {
	if r.Parts != 0 {
		return nil, errParts
	}
	if err := ended(ctx); err != nil { // before the device binds windows
		return nil, err
	}
	f, data, lent, err := c.prepare(r)
	if err != nil {
		return nil, err
	}
	m, err := c.call(ctx, &f, data, len(lent) > 0)
	if failed := c.takeBack(lent, c.patience(ctx)); failed != nil {
		if err == nil {
			m.Free()
		}
		return nil, failed
	}
	return m, err
}

// prepare lends the memory of a request. It returns the frame, and the bytes behind its header.
func (c *Conn) prepare(r *Request) (f frame, data []byte, lent []*Loan, err error) {
	f, data = frame{kind: kindRequest, tag: r.Tag, parts: r.Parts}, r.Data
	if len(r.Read.Bytes) > 0 {
		f.flags |= lentRead
	}
	if len(r.Write.Bytes) > 0 {
		f.flags |= lentWrite
	}
	if f.flags == 0 {
		return f, data, nil, nil
	}
	if n := f.lentLen(); len(r.Data) > c.MaxLen()-n {
		return f, nil, nil, fmt.Errorf("%d bytes, the peer takes at most %d with lent memory: %w", len(r.Data), c.MaxLen()-n, syscall.EMSGSIZE)
	}
	data = make([]byte, 0, f.lentLen()+len(r.Data))
	for _, x := range []struct {
		flag   uint8
		mem    Memory
		access verbs.Access
	}{{lentRead, r.Read, verbs.RemoteRead}, {lentWrite, r.Write, verbs.RemoteWrite}} {
		if f.flags&x.flag == 0 {
			continue
		}
		l, err := c.lend(x.mem, x.access)
		if err != nil {
			_ = c.takeBack(lent, c.opts.unbind) // the peer has no token
			return f, nil, nil, err
		}
		lent = append(lent, l)
		data, _ = l.token.RemoteMemory.AppendBinary(data) // has no errors
	}
	return f, append(data, r.Data...), lent, nil
}

// Lent returns the memory that the request lends for reading and for writing. A Token whose Length is 0 was
// not lent. The memory is lent until the request is answered. Its size is the peer's choice, so compare it
// with a limit before allocating memory of that size.
func (m *Message) Lent() (read, write Token) { return m.read, m.write }
