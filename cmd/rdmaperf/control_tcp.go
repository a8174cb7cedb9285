// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// tcpControl implements control over TCP, with a line for each message.
type tcpControl struct {
	conn   net.Conn
	first  []byte        // a line that was read before, or nil
	r      *bufio.Reader // the source of read
	lines  chan []byte   // lines received
	left   chan struct{}
	err    error // the reason, set before left is closed
	quit   chan struct{}
	closer sync.Once
	reader sync.WaitGroup
}

func newTCPControl(conn net.Conn) *tcpControl {
	return startTCPControl(conn, bufio.NewReaderSize(conn, maxMessage), nil)
}

// startTCPControl is like newTCPControl for a connection whose reader is in use. first is the
// first line if it was read already, else nil.
func startTCPControl(conn net.Conn, r *bufio.Reader, first []byte) *tcpControl {
	c := &tcpControl{conn: conn, r: r, first: first, lines: make(chan []byte), left: make(chan struct{}), quit: make(chan struct{})}
	c.reader.Go(c.read)
	return c
}

// readLine reads one message. The line is valid until the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case err == io.EOF || errors.Is(err, net.ErrClosed):
		err = errLeft
	case err == bufio.ErrBufferFull:
		err = fmt.Errorf("the other side's message has more than %d bytes", maxMessage)
	}
	return line, err
}

// read reads continuously, so that it detects when the other side leaves.
func (c *tcpControl) read() {
	defer close(c.left)
	line, err := c.first, error(nil)
	if line == nil {
		line, err = readLine(c.r)
	}
	for ; ; line, err = readLine(c.r) {
		if err != nil {
			c.err = err
			return
		}
		select {
		case c.lines <- append([]byte(nil), line...):
		case <-c.quit:
			c.err = net.ErrClosed
			return
		}
	}
}

func (c *tcpControl) done() <-chan struct{} { return c.left }

func (c *tcpControl) close() {
	c.closer.Do(func() {
		close(c.quit)
		c.conn.Close()
	})
	c.reader.Wait()
}

func (c *tcpControl) send(_ context.Context, m message) error {
	b, err := encode(m)
	if err != nil {
		return err
	}
	_, err = c.conn.Write(append(b, '\n')) // it fits the socket's buffer
	return err
}

func (c *tcpControl) receive(ctx context.Context) (message, error) {
	select {
	case line := <-c.lines:
		return decode(line)
	default:
	}
	select {
	case line := <-c.lines:
		return decode(line)
	case <-c.left:
		return message{}, c.err
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	}
}
