// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"syscall"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/rsocket"
)

// serve serves one client after the other until ctx ends.
func serve(ctx context.Context, u *tool.UI, local cm.Addr) error {
	lc := rsocket.ListenConfig{CM: cm.ListenConfig{ReuseAddr: true}}
	ln, err := lc.ListenAddr(local)
	if err != nil {
		u.Perror("rlisten failed", err)
		return err
	}
	defer ln.Close()
	return serveOn(ctx, u, ln)
}

// serveOn is serve on a listener, which it closes when ctx ends. It continues while the process is out of
// descriptors or memory.
func serveOn(ctx context.Context, u *tool.UI, ln net.Listener) error {
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	for {
		u.Printf("waiting for connection...")
		conn, err := tool.AcceptConn(ctx, ln, u.Fail)
		if err != nil {
			return err
		}
		u.Printf("client: %s\n", conn.RemoteAddr().(cm.Addr).Addr())
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		s := &session{ui: u, conn: conn}
		if err := s.run(); err != nil && !errors.Is(err, io.EOF) {
			u.Fail(err) // of this client
		}
		stop()
		conn.Close()
	}
}

// session is the connection of a client.
type session struct {
	ui   *tool.UI
	conn net.Conn
	file *os.File // nil before cmdOpen and after cmdClose
}

// run serves the commands of the client until one fails, or the client ends the connection.
func (s *session) run() error {
	defer s.close()
	for {
		h, err := readHeader(s.conn)
		if err != nil {
			return err
		}
		switch h.command {
		case cmdOpen:
			err = s.open(h)
		case cmdWrite:
			err = s.write(h)
		case cmdClose:
			s.ui.Printf("closing...")
			err = s.close()
			s.ui.Printf("done\n")
		default:
			err = syscall.EINVAL
		}
		if aerr := s.answer(h, err); aerr != nil || err != nil {
			return errors.Join(err, aerr)
		}
	}
}

// answer sends the result of a command.
func (s *session) answer(h header, err error) error {
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		errno = syscall.EIO
	}
	return header{command: h.command | cmdResp, data: uint32(errno), id: h.id}.send(s.conn, nil)
}

func (s *session) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

func (s *session) open(h header) error {
	s.ui.Printf("opening: ")
	if s.file != nil {
		s.ui.Printf("cannot open another file\n")
		return syscall.EBUSY
	}
	b, err := h.payload(s.conn)
	if err != nil {
		s.ui.Printf("error receiving path\n")
		return err
	}
	path, _, _ := bytes.Cut(b, []byte{0})
	s.ui.Printf("%s, ", path)
	s.file, err = os.OpenFile(string(path), os.O_RDWR|os.O_CREATE|os.O_TRUNC, os.FileMode(h.data).Perm())
	if err != nil {
		s.file = nil
		s.ui.Printf("unable to open destination file\n")
	}
	return err
}

func (s *session) write(h header) error {
	s.ui.Printf("transferring")
	if s.file == nil {
		s.ui.Printf("...file not opened\n")
		return syscall.EINVAL
	}
	if h.length != headerLen+sizeLen {
		s.ui.Printf("...invalid message length %d\n", h.length)
		return syscall.EINVAL
	}
	b, err := h.payload(s.conn)
	if err != nil {
		return err
	}
	size := binary.NativeEndian.Uint64(b)
	if size > math.MaxInt64 {
		return syscall.EFBIG
	}
	if err := s.file.Truncate(int64(size)); err != nil {
		return err
	}
	s.ui.Printf("...%d bytes...", size)
	_, err = io.CopyN(s.file, s.conn, int64(size))
	if err != nil {
		s.ui.Printf("...error receiving data\n")
	}
	return err
}
