// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"encoding/binary"
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

// ack takes note of what the program took.
func (in *input) ack(data []byte) {
	if len(data) != 4 {
		return
	}
	in.mu.Lock()
	in.flight -= int(binary.BigEndian.Uint32(data))
	in.taken.Signal()
	in.mu.Unlock()
}
