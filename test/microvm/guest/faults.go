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

// faultSocket is the socket at which programs request faults of the devices. The program writes
// a line. The answer is a line, which is empty for success.
const faultSocket = runDir + "/faults"

// faults passes on the programs' requests, one at a time.
type faults struct {
	mu      sync.Mutex
	conn    *wire.Conn
	answers chan string
}

// serve creates the socket and serves it forever. Package net would make the program much
// larger.
func (f *faults) serve() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: faultSocket})
	}
	if err == nil {
		err = unix.Listen(fd, 8)
	}
	if err != nil {
		return fmt.Errorf("socket for faults: %w", err)
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

// answer answers one program's line, which the program must write in one call.
func (f *faults) answer(c *os.File) {
	line := make([]byte, 256)
	if n, err := c.Read(line); err == nil {
		c.WriteString(f.ask(string(line[:n])) + "\n")
	}
	c.Close()
}

// ask sends the request to the host and returns the host's answer.
func (f *faults) ask(text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.conn.Send(wire.Fault, []byte(text)); err != nil {
		return err.Error()
	}
	return <-f.answers
}
