// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"purerdma/test/microvm/wire"
)

// input sends the host's stdin to the guest at the pace of the program there.
type input struct {
	mu     sync.Mutex
	taken  *sync.Cond
	flight int // sent bytes that the program has not read
}

// newInput starts to send f. Without f the program's stdin is empty.
func newInput(f *os.File, conn *wire.Conn) *input {
	in := &input{}
	in.taken = sync.NewCond(&in.mu)
	if f == nil {
		go conn.Send(wire.StdinEOF, nil)
		return in
	}
	go func() {
		buf := make([]byte, 16<<10)
		for {
			n, err := f.Read(buf)
			if n > 0 {
				in.mu.Lock()
				for in.flight+n > wire.StdinWindow {
					in.taken.Wait()
				}
				in.flight += n
				in.mu.Unlock()
				if conn.Send(wire.Stdin, buf[:n]) != nil {
					return
				}
			}
			if err != nil {
				conn.Send(wire.StdinEOF, nil)
				return
			}
		}
	}()
	return in
}

// ack records the bytes that the program has read. in is nil before a command has started.
func (in *input) ack(data []byte) error {
	if in == nil || len(data) != 4 {
		return errBadAck
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	n := binary.BigEndian.Uint32(data)
	if uint64(n) > uint64(in.flight) {
		return errBadAck
	}
	in.flight -= int(n)
	in.taken.Signal()
	return nil
}

var errBadAck = errors.New("the guest acknowledged more input than was sent")
