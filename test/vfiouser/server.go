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

	"purerdma/test/pci"
)

// A Server provides one function to one client. It calls the function from one goroutine.
type Server struct {
	Function   pci.Function
	Memory     *Memory     // the client's memory
	Interrupts *Interrupts // the function's interrupts
}

// Serve answers the client on conn until the client closes the connection, sends an invalid
// message, or ctx ends. It closes conn, empties the Memory and disables the Interrupts. It
// returns nil if the client has closed the connection between two messages.
func (s *Server) Serve(ctx context.Context, conn *net.UnixConn) error {
	defer conn.Close()
	sock, err := newSocket(conn)
	if err != nil {
		return err
	}
	defer sock.f.Close()
	defer s.Memory.removeAll()
	defer s.Interrupts.disable()
	// The descriptor must stay open until the function has returned, or the function would shut
	// down another socket that gets the same number.
	shut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		unix.Shutdown(sock.fd, unix.SHUT_RDWR)
		close(shut)
	})
	defer func() {
		if !stop() {
			<-shut
		}
	}()
	// The thread blocks in the kernel most of the time. Switching goroutines between threads
	// would slow down each access of the guest.
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

// handle executes one command and returns the length of the reply's payload. When it returns,
// the file descriptors are either closed or stored.
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

// A handler executes a command whose body has at least the given size.
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
