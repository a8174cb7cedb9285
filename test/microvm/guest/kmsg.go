// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/wire"
)

// kmsg passes the whole kernel log on to the host. The console gets only urgent messages,
// because it is slow.
type kmsg struct {
	fd   int
	mu   sync.Mutex
	conn *wire.Conn
}

func startKmsg(conn *wire.Conn) (*kmsg, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/kmsg", Err: err}
	}
	k := &kmsg{fd: fd, conn: conn}
	go func() {
		for {
			k.drain()
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return k, nil
}

// drain passes on the available messages.
func (k *kmsg) drain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []byte
	buf := make([]byte, 8192) // one record per read
	for {
		n, err := unix.Read(k.fd, buf)
		if err == unix.EPIPE { // records were lost, continue with the next one
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		out = append(out, formatKmsg(string(buf[:n]))...)
		if len(out) > 16<<10 {
			k.conn.Send(wire.Kmsg, out)
			out = out[:0]
		}
	}
	if len(out) > 0 {
		k.conn.Send(wire.Kmsg, out)
	}
}

// formatKmsg formats a record as dmesg(1) does. A record has the form
// "level,sequence,microseconds,flags;text" with further lines about the device.
func formatKmsg(record string) string {
	head, text, ok := strings.Cut(record, ";")
	f := strings.Split(head, ",")
	if !ok || len(f) < 3 {
		return record
	}
	text, _, _ = strings.Cut(text, "\n")
	us, _ := strconv.ParseUint(f[2], 10, 64)
	return fmt.Sprintf("[%5d.%06d] %s\n", us/1e6, us%1e6, text)
}
