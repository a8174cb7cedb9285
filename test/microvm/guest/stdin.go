// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/wire"
)

// stdin passes the host's input to the running command. It queues the input, so that a program
// that does not read does not block signals.
type stdin struct {
	conn *wire.Conn

	mu    sync.Mutex
	more  *sync.Cond
	queue [][]byte
	eof   bool
	file  *os.File // write end of the command's stdin
	tty   *os.File // the command's terminal
	proc  *os.Process
}

func (s *stdin) init(conn *wire.Conn) {
	s.conn = conn
	s.more = sync.NewCond(&s.mu)
	go s.feed()
}

// attach sets the file for the input. If several commands run in one boot, the first command
// that reads gets the input.
func (s *stdin) attach(f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.Close()
	}
	s.file = f
	s.more.Broadcast()
}

// program sets the process that receives signals.
func (s *stdin) program(p *os.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc = p
	if p == nil && s.file != nil {
		if s.file != s.tty { // a terminal still has output
			s.file.Close()
		}
		s.file, s.tty = nil, nil
	}
}

// feed writes the queued input, forever.
func (s *stdin) feed() {
	for {
		s.mu.Lock()
		for s.file == nil || len(s.queue) == 0 && !s.eof {
			s.more.Wait()
		}
		f := s.file
		if len(s.queue) == 0 {
			if f != s.tty { // a terminal has no end of input
				f.Close()
			}
			s.file = nil
			s.mu.Unlock()
			continue
		}
		data := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f.Write(data) // unread input is lost, as in a pipe
		s.conn.Send(wire.StdinAck, binary.BigEndian.AppendUint32(nil, uint32(len(data))))
	}
}

// listen handles the host's frames.
func (g *guest) listen() {
	s := &g.stdin
	for {
		kind, data, err := g.conn.Receive()
		if err != nil {
			return
		}
		switch kind {
		case wire.Bye:
			close(g.bye)
			return
		case wire.Stdin, wire.StdinEOF:
			s.mu.Lock()
			if kind == wire.Stdin {
				s.queue = append(s.queue, data)
			} else {
				s.eof = true
			}
			s.more.Broadcast()
			s.mu.Unlock()
		case wire.Signal:
			s.mu.Lock()
			if s.proc != nil && len(data) == 1 {
				s.proc.Signal(syscall.Signal(data[0]))
			}
			s.mu.Unlock()
		case wire.FaultDone:
			g.faults.answers <- string(data)
		case wire.Winsize:
			s.mu.Lock()
			if s.tty != nil && len(data) == 4 {
				unix.IoctlSetWinsize(int(s.tty.Fd()), unix.TIOCSWINSZ, winsize(data))
			}
			s.mu.Unlock()
		}
	}
}

func winsize(b []byte) *unix.Winsize {
	return &unix.Winsize{Row: binary.BigEndian.Uint16(b), Col: binary.BigEndian.Uint16(b[2:])}
}
