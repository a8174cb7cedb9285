// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Times of the watchdog.
const (
	// saveTime is the time that a process has to save its recording and to print its stacks by itself.
	saveTime = 5 * time.Second
	// stacksTime is the time that a process has to print its stacks after SIGQUIT.
	stacksTime = 10 * time.Second
	// killTime is the time that a killed process has to end. A process that needs longer is stuck in the
	// kernel, and the run continues without it.
	killTime = 10 * time.Second
)

// maxOutput bounds the bytes of each output of a child that are kept.
const maxOutput = 1 << 20

// errTimeout is the error of a child that the watchdog has ended.
var errTimeout = errors.New("the watchdog ended the process")

// watch runs a child and returns its standard output and its log. The child is ended after the limit, or when ctx
// ends. watch returns even if the child cannot be killed.
func watch(ctx context.Context, cmd *exec.Cmd, limit time.Duration) (stdout, log []byte, err error) {
	// Files, because the read of a pipe ends only with the child.
	out, err := os.CreateTemp("", "rdmahw-*")
	if err != nil {
		return nil, nil, err
	}
	defer discard(out)
	errs, err := os.CreateTemp("", "rdmahw-*")
	if err != nil {
		return nil, nil, err
	}
	defer discard(errs)
	cmd.Stdout, cmd.Stderr = out, errs
	hold, err := cmd.StdinPipe() // see endWithParent
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = await(ctx, cmd.Process, ended, limit, hold)
	return start(out), start(errs), err
}

// await waits for the end of a process, and ends it if necessary. The process ends by itself when hold is closed, if it
// can.
func await(ctx context.Context, p *os.Process, ended <-chan error, limit time.Duration, hold io.Closer) error {
	defer hold.Close()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case <-time.After(limit):
	}
	cause := fmt.Errorf("%w after %v", errTimeout, limit)
	if ctx.Err() != nil {
		cause = ctx.Err()
	} else {
		hold.Close()
		for _, wait := range []time.Duration{saveTime, stacksTime} {
			select {
			case <-ended:
				return cause
			case <-time.After(wait):
			}
			p.Signal(syscall.SIGQUIT)
		}
	}
	p.Kill()
	select {
	case <-ended:
		return cause
	case <-time.After(killTime):
		return fmt.Errorf("%w; process %d cannot be killed, because a system call does not return", cause, p.Pid)
	}
}

func discard(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}

// start returns the first bytes of a file.
func start(f *os.File) []byte {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxOutput))
	if err != nil {
		return fmt.Appendf(b, "\n%v\n", err)
	}
	return b
}
