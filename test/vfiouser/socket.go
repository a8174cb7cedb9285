// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A socket sends and receives whole messages. Its calls block without the runtime's poller,
// because each access to a register waits for them.
type socket struct {
	f   *os.File
	fd  int
	in  []byte // last received message
	out []byte // message to send
	oob []byte
}

func newSocket(c *net.UnixConn) (*socket, error) {
	f, err := c.File()
	if err != nil {
		return nil, fmt.Errorf("vfio-user: %w", err)
	}
	s := &socket{f: f, fd: int(f.Fd()), in: make([]byte, maxMessage), out: make([]byte, maxMessage)}
	s.oob = make([]byte, unix.CmsgSpace(4*maxFDs))
	return s, unix.SetNonblock(s.fd, false)
}

// receive returns the next message's header and body, which the next call overwrites. The
// caller owns the returned file descriptors. The error is io.EOF if the client has closed the
// connection.
func (s *socket) receive() (h header, body []byte, fds []int, err error) {
	fds, err = s.fill(s.in[:headerSize])
	if err == nil {
		h.decode(s.in)
		switch {
		case h.size < headerSize || h.size > maxMessage:
			err = fmt.Errorf("vfio-user: message of %d bytes: not between %d and %d", h.size, headerSize, maxMessage)
		case h.flags&flagTypeMask != 0:
			err = fmt.Errorf("vfio-user: message of type %d, which no command has", h.flags&flagTypeMask)
		default:
			body = s.in[headerSize:h.size]
			_, err = io.ReadFull(s.f, body)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
		}
	}
	if err != nil {
		closeAll(fds)
		fds = nil
	}
	return h, body, fds, err
}

// fill reads len(b) bytes and returns the file descriptors that arrive with them. They arrive
// with the first byte of a message.
func (s *socket) fill(b []byte) (fds []int, err error) {
	for got := 0; got < len(b); {
		n, oobn, flags, _, err := unix.Recvmsg(s.fd, b[got:], s.oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fds, fmt.Errorf("vfio-user: receiving: %w", err)
		}
		more, err := rights(s.oob[:oobn])
		if fds = append(fds, more...); err != nil {
			return fds, err
		}
		if flags&unix.MSG_CTRUNC != 0 || len(fds) > maxFDs {
			return fds, fmt.Errorf("vfio-user: a message with more than %d file descriptors", maxFDs)
		}
		if n == 0 {
			if got > 0 {
				return fds, io.ErrUnexpectedEOF
			}
			return fds, io.EOF
		}
		got += n
	}
	return fds, nil
}

// rights returns the file descriptors in control messages.
func rights(oob []byte) (fds []int, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	for i := range msgs {
		more, merr := unix.ParseUnixRights(&msgs[i])
		fds, err = append(fds, more...), errors.Join(err, merr)
	}
	if err != nil {
		err = fmt.Errorf("vfio-user: control message: %w", err)
	}
	return fds, err
}

// payload returns n zero bytes for the body of the message to send.
func (s *socket) payload(n int) []byte {
	b := s.out[headerSize : headerSize+n]
	clear(b)
	return b
}

// reply answers h with the first n bytes of the payload, or with the error.
func (s *socket) reply(h header, n int, errno unix.Errno) error {
	if h.flags&flagNoReply != 0 {
		return nil
	}
	r := header{id: h.id, command: h.command, flags: flagReply}
	if errno != 0 {
		n, r.flags, r.errn = 0, flagReply|flagError, uint32(errno)
	}
	r.size = uint32(headerSize + n)
	r.encode(s.out)
	if _, err := s.f.Write(s.out[:r.size]); err != nil {
		return fmt.Errorf("vfio-user: replying to %s: %w", commandNames[h.command], err)
	}
	return nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
