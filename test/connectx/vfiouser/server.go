// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"

	"golang.org/x/sys/unix"
)

// A Server offers one Function to one client.
type Server struct {
	Function   Function
	Memory     *Memory     // where the client's memory will be
	Interrupts *Interrupts // how the function tells it something
}

// Serve answers the client at the other end of conn, until that closes the
// connection or sends what is no message, or ctx ends. It closes conn, and
// leaves the Memory empty and the Interrupts disabled. It returns nil if the
// client closed the connection between two messages.
func (s *Server) Serve(ctx context.Context, conn *net.UnixConn) error {
	defer conn.Close()
	sock, err := newSocket(conn)
	if err != nil {
		return err
	}
	defer sock.f.Close()
	defer s.Memory.removeAll()
	defer s.Interrupts.disable()
	stop := context.AfterFunc(ctx, func() { unix.Shutdown(sock.fd, unix.SHUT_RDWR) })
	defer stop()
	// The thread waits in the kernel most of the time; a goroutine's change of
	// threads would make each access of the guest slower.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		h, body, fds, err := sock.receive()
		if err == nil {
			n, errno := s.handle(sock, h.command, body, fds)
			err = sock.reply(h, n, errno)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// handle carries out one command. It returns the length of the payload of the
// reply. The file descriptors are closed, or kept, when it returns.
func (s *Server) handle(sock *socket, command uint16, body []byte, fds []int) (int, unix.Errno) {
	h, ok := handlers[command]
	switch {
	case !ok:
		closeAll(fds)
		return 0, unix.ENOTSUP
	case len(body) < h.size:
		closeAll(fds)
		return 0, unix.EINVAL
	}
	if command != cmdSetIRQs { // it keeps them
		defer closeAll(fds)
	}
	return h.run(s, sock, body, fds)
}

// A handler carries out a command whose body has at least that size.
type handler struct {
	size int
	run  func(s *Server, sock *socket, body []byte, fds []int) (int, unix.Errno)
}

var handlers = map[uint16]handler{
	cmdVersion:       {4, (*Server).version},
	cmdDMAMap:        {32, (*Server).dmaMap},
	cmdDMAUnmap:      {24, (*Server).dmaUnmap},
	cmdGetInfo:       {16, (*Server).info},
	cmdGetRegionInfo: {32, (*Server).regionInfo},
	cmdGetIRQInfo:    {16, (*Server).irqInfo},
	cmdSetIRQs:       {20, (*Server).setIRQs},
	cmdRegionRead:    {16, (*Server).read},
	cmdRegionWrite:   {16, (*Server).write},
	cmdReset:         {0, (*Server).reset},
}
