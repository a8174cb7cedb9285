// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
)

// kernelLog reads the lines of the kernel's log since its opening. A user who may not read the log gets none.
type kernelLog struct {
	fd  int
	err error
}

// openKernelLog opens the kernel's log at its end.
func openKernelLog() *kernelLog {
	fd, err := syscall.Open("/dev/kmsg", syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &kernelLog{fd: -1, err: err}
	}
	if _, err := syscall.Seek(fd, 0, 2); err != nil {
		syscall.Close(fd)
		return &kernelLog{fd: -1, err: err}
	}
	return &kernelLog{fd: fd}
}

func (k *kernelLog) close() {
	if k.fd >= 0 {
		syscall.Close(k.fd)
	}
}

// read returns the lines about RDMA, the device and errors of the host. It does not block.
func (k *kernelLog) read(device string) []byte {
	if k.err != nil {
		return fmt.Appendf(nil, "the log of the kernel cannot be read: %v\n", k.err)
	}
	var out bytes.Buffer
	record := make([]byte, 8<<10)
	for {
		n, err := syscall.Read(k.fd, record)
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EINTR) {
			continue // records were overwritten before they were read
		}
		if err != nil || n <= 0 {
			return out.Bytes()
		}
		if line := kernelLine(string(record[:n])); concerns(line, device) {
			out.WriteString(line + "\n")
		}
	}
}
