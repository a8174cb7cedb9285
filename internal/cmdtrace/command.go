// SPDX-License-Identifier: Apache-2.0

// Package cmdtrace records the commands of other programs to the kernel's RDMA devices, with ptrace(2). A program that uses it calls Main
// first, because the recorder is a process of its own. A tracer waits for all its children.
package cmdtrace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// Command is a command of a program to the kernel, or a mapping of a device.
type Command struct {
	Device string // "ioctl", "uverbs" or "rdma_cm" for a write(2), or "mmap"
	Object uint16 // object of an ioctl
	Method uint16
	Driver uint32
	Attrs  []Attr
	Bytes  []byte // bytes of a write
	Result []byte // response to a write to uverbs
	Offset int64  // of a mapping
	Length uint64 // of a mapping, in bytes
	Errno  int64  // result from the kernel, 0 for success
}

// Attr is an attribute of an ioctl. Attributes that the core of the kernel does not declare are of the driver. In has its input then, and Out
// its output if the kernel has changed the memory.
type Attr struct {
	ID, Len, Flags uint16
	Elem           uint8
	In             []byte // the contents of an input
	Out            []byte // the contents of an output after a successful command

	addr uint64 // of Out in the program
}

// fileVar names the file of the recording in the environment of the process that records.
const fileVar = "PURERDMA_CMDTRACE_FILE"

// Program returns a process that runs a program with arguments and writes its commands to a file. It is this program again, which
// calls Main. It ends with the program's status, or with 1 if the program cannot be traced. The program must not use set-user-ID.
func Program(ctx context.Context, file string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", argv...)
	cmd.Env = append(os.Environ(), fileVar+"="+file)
	return cmd
}

// Main records if the environment requests it, and does not return then.
func Main() {
	file := os.Getenv(fileVar)
	if file == "" {
		return
	}
	os.Unsetenv(fileVar)
	status, err := record(file, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "trace:", err)
		status = 1
	}
	os.Exit(status)
}

// Read returns the commands of a file.
func Read(file string) ([]*Command, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []*Command
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}
