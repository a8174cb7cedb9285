// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// netlinkSocket is a socket of package netlink of vishvananda.
type netlinkSocket struct {
	s    *nl.NetlinkSocket
	port uint32 // the socket's address
}

func dial() (socket, error) {
	s, err := nl.Subscribe(unix.NETLINK_RDMA)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	port, err := s.GetPid()
	if err != nil {
		s.Close()
		return nil, os.NewSyscallError("getsockname", err)
	}
	// The kernel answers at once. The limit only keeps a faulty kernel from blocking the caller.
	s.SetReceiveTimeout(&nl.SocketTimeoutTv)
	// Without NETLINK_EXT_ACK (Linux 4.12) errors have no explanation.
	_ = s.SetExtAck(true)
	return &netlinkSocket{s: s, port: port}, nil
}

func (s *netlinkSocket) close() { s.s.Close() }

func (s *netlinkSocket) exchange(r *request, dump, ack bool, each func(value) error) error {
	flags := 0
	if dump {
		flags |= unix.NLM_F_DUMP
	}
	if ack {
		flags |= unix.NLM_F_ACK
	}
	req := nl.NewNetlinkRequest(r.messageType(), flags)
	req.AddRawData(r.body)
	if err := s.s.Send(req); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	a := answer{seq: req.Seq, port: s.port, ack: ack}
	for {
		msgs, from, err := s.s.Receive()
		if err != nil {
			return &incompleteError{receiveError(err)}
		}
		if from.Pid != nl.PidKernel {
			continue // another process may send to the address
		}
		for _, m := range msgs {
			done, err := a.message(m.Header, m.Data, each)
			if err != nil || done {
				return err
			}
		}
	}
}

// receiveError names the system call of an errno.
func receiveError(err error) error {
	if errors.Is(err, unix.EAGAIN) {
		err = unix.ETIMEDOUT
	}
	return os.NewSyscallError("recvfrom", err)
}

// answer reads the answer to one request.
type answer struct {
	seq         uint32
	port        uint32
	ack         bool
	interrupted bool
}

// message reads one message. It returns true at the end of the answer.
func (a *answer) message(h syscall.NlMsghdr, data []byte, each func(value) error) (done bool, err error) {
	if h.Seq != a.seq || h.Pid != a.port {
		return false, nil // of an earlier request
	}
	if h.Flags&unix.NLM_F_DUMP_INTR != 0 {
		a.interrupted = true
	}
	switch h.Type {
	case unix.NLMSG_DONE, unix.NLMSG_ERROR:
		if err := parseError(h, data); err != nil {
			return true, err
		}
		if a.interrupted {
			return true, errInterrupted
		}
		return true, nil
	case unix.NLMSG_NOOP, unix.NLMSG_OVERRUN:
		return false, nil
	}
	multi := h.Flags&unix.NLM_F_MULTI != 0
	if err := each(data); err != nil {
		if multi {
			err = &incompleteError{err}
		}
		return true, err
	}
	return !multi && !a.ack, nil
}

// parseError returns the error in the payload of NLMSG_ERROR or NLMSG_DONE, nil for success. The
// payload is an errno, in NLMSG_ERROR the header of the request and possibly its body, and attributes.
func parseError(h syscall.NlMsghdr, data []byte) error {
	if len(data) < 4 {
		if h.Type == unix.NLMSG_DONE {
			return nil
		}
		return errNoAnswer
	}
	errno := -int32(binary.NativeEndian.Uint32(data))
	if errno <= 0 {
		return nil
	}
	refused := &refusal{errno: syscall.Errno(errno)}
	if h.Flags&unix.NLM_F_ACK_TLVS == 0 {
		return refused
	}
	rest := data[4:]
	if h.Type == unix.NLMSG_ERROR {
		n := uint32(unix.NLMSG_HDRLEN)
		if h.Flags&unix.NLM_F_CAPPED == 0 && len(rest) >= 4 {
			n = max(n, binary.NativeEndian.Uint32(rest)) // the length of the request
		}
		if uint64(n) > uint64(len(rest)) {
			return refused
		}
		rest = rest[min(len(rest), int(n+3)&^3):]
	}
	for msg := range value(rest).entries(nl.NLMSGERR_ATTR_MSG) {
		refused.message = msg.text()
	}
	return refused
}
