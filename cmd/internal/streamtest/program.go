// SPDX-License-Identifier: Apache-2.0

package streamtest

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"purerdma/cmd/internal/tool"
)

// syncSize is the number of bytes with which both sides meet before a test.
const syncSize = 16

// statusUsage is the exit status for a bad command line.
const statusUsage = 1

// Kind is one of the programs.
type Kind struct {
	Name        string
	TestOptions string // the letters of -T
	KeepAlive   bool   // whether there is -k
	Maps        int    // mappings of memory
	// Run runs the transfers of a test.
	Run func(*Session, Test) error
}

// Main runs the program until ctx ends, and returns its exit status.
func (k *Kind) Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := tool.NewUI(k.Name, stdout, stderr)
	opt, err := parse(k, args, u)
	if err != nil {
		u.Usage(err, k.usage())
		return statusUsage
	}
	p := &program{opt: opt, ui: u}
	status := tool.Status(p.run(ctx))
	if err := u.Failure(); err != nil && status == 0 {
		u.Fail(err)
		status = tool.StatusFailed
	}
	return status & 0xff
}

// Session is a connection on which tests run.
type Session struct {
	Conn   net.Conn
	Client bool
	Verify bool    // -T v
	Data   Pattern // of Verify
	buf    []byte
	start  time.Time
}

// NewSession returns a session for tests of up to size bytes.
func NewSession(conn net.Conn, client, verify bool, size int) *Session {
	return &Session{Conn: conn, Client: client, Verify: verify, buf: make([]byte, max(size, syncSize))}
}

// program is a run of the program.
type program struct {
	opt  *options
	ui   *tool.UI
	meet *meeting
	*Session
}

func (p *program) run(ctx context.Context) error {
	p.meet = &meeting{opt: p.opt, ui: p.ui}
	client := p.opt.names.Dest != ""
	if client { // as in C, also if the look-up fails
		p.ui.Printf("%s", Head)
	}
	var err error
	if p.meet.local, p.meet.remote, err = p.opt.names.Resolve(ctx); err != nil {
		p.ui.FailLookup("getaddrinfo", err)
		return err
	}
	if !client {
		if err := p.meet.listen(ctx, p.opt.inline); err != nil {
			return err
		}
		defer p.meet.ln.Close()
		defer context.AfterFunc(ctx, func() { p.meet.ln.Close() })()
		p.ui.Printf("%s", Head)
	}
	if p.opt.custom {
		p.Session = NewSession(nil, client, p.opt.verify, p.opt.size)
		return p.phase(ctx, p.opt.inline, []Test{{Name: "custom", Size: p.opt.size, Count: p.opt.count, Iterations: p.opt.iterations}})
	}
	sizes := Sizes(p.opt.all)
	p.Session = NewSession(nil, client, p.opt.verify, sizes[len(sizes)-1])
	for _, part := range []struct {
		test   func(size int) Test
		inline int
	}{{Latency, p.opt.inline}, {Bandwidth, 0}} {
		var tests []Test
		for _, size := range sizes {
			tests = append(tests, part.test(size))
		}
		// As in C, a failed test does not change the status.
		if err := p.phase(ctx, part.inline, tests); p.Conn == nil {
			return err
		}
	}
	return nil
}

// phase makes a connection and runs tests on it.
func (p *program) phase(ctx context.Context, inline int, tests []Test) (err error) {
	if p.Conn, err = p.meet.connection(ctx, inline); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { p.Conn.Close() })()
	defer p.Conn.Close()
	for _, t := range tests {
		if err = p.test(t); err != nil {
			p.report(err)
			break
		}
	}
	return err
}

func (p *program) test(t Test) error {
	if err := p.opt.kind.Run(p.Session, t); err != nil {
		return err
	}
	return p.ui.Printf("%s", t.Row(time.Since(p.start)))
}

// Sync meets the other side and starts to take the time. verify applies -T v to the exchanged bytes.
func (s *Session) Sync(verify bool) error {
	wanted := s.Verify
	s.Verify = wanted && verify
	err := s.Exchange(syncSize, 1)
	s.Verify = wanted
	s.start = time.Now()
	return err
}

// Exchange transfers size bytes count times from the client to the server, and then back.
func (s *Session) Exchange(size, count int) error {
	first, second := s.send, s.receive
	if !s.Client {
		first, second = second, first
	}
	for _, transfer := range []func(int) error{first, second} {
		for range count {
			if err := transfer(size); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Session) send(size int) error {
	b := s.buf[:size]
	if s.Verify {
		s.Data.Fill(b)
	}
	_, err := s.Conn.Write(b)
	return err
}

func (s *Session) receive(size int) error {
	b := s.buf[:size]
	if _, err := io.ReadFull(s.Conn, b); err != nil {
		return err
	}
	if s.Verify {
		return s.Data.Verify(b)
	}
	return nil
}

// report prints the message of C for a failed test.
func (p *program) report(err error) {
	if v, ok := errors.AsType[VerifyError](err); ok {
		p.ui.Printf("%v\n", v)
		return
	}
	what := "rrecv"
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "write" {
		what = "rsend"
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = syscall.ECONNRESET // the peer has closed in the middle of a test
	}
	p.ui.Perror(what, err)
}
