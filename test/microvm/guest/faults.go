// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/wire"
)

// faultSocket is where programs ask for a fault of the devices: by a line, which is
// answered by a line when it is done. An empty one says that it was.
const faultSocket = runDir + "/faults"

// faults passes on what programs ask for, one at a time.
type faults struct {
	mu      sync.Mutex
	conn    *wire.Conn
	answers chan string
}

// serve makes the socket, for as long as the machine runs. (Package net's would make
// the program much larger.)
func (f *faults) serve() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: faultSocket})
	}
	if err == nil {
		err = unix.Listen(fd, 8)
	}
	if err != nil {
		return fmt.Errorf("the socket for faults: %w", err)
	}
	go func() {
		for {
			if c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC); err == nil {
				go f.answer(os.NewFile(uintptr(c), faultSocket))
			}
		}
	}()
	return nil
}

// answer answers one program's line, which it has written at once.
func (f *faults) answer(c *os.File) {
	line := make([]byte, 256)
	if n, err := c.Read(line); err == nil {
		c.WriteString(f.ask(string(line[:n])) + "\n")
	}
	c.Close()
}

// ask has the host do it, and returns its answer.
func (f *faults) ask(text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.conn.Send(wire.Fault, []byte(text)); err != nil {
		return err.Error()
	}
	return <-f.answers
}
