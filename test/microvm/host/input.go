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

// input sends the host's stdin to the guest, no faster than the program
// there takes it.
type input struct {
	mu     sync.Mutex
	taken  *sync.Cond
	flight int // bytes sent that the program has not taken
}

// newInput starts sending f; without f the program finds its stdin empty.
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

// ack takes note of what the program took. Before a command has started, in is nil.
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

var errBadAck = errors.New("the guest acknowledges input that it was not sent")
