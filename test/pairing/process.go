// SPDX-License-Identifier: Apache-2.0

package pairing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Program is one implementation of rping.
type Program struct {
	Name string // "Go" or "C"
	Path string
}

// Output is the output of a process with its exit status.
type Output struct {
	Stdout, Stderr string
	Status         int // as in a shell, 128 plus the signal's number
}

func (o Output) String() string {
	return fmt.Sprintf("status %d\nstdout:\n%s\nstderr:\n%s", o.Status, indent(o.Stdout), indent(o.Stderr))
}

// indent shortens long output to its start and its end.
func indent(s string) string {
	const limit = 4000
	if len(s) > limit {
		s = s[:limit/2] + "\n[...]\n" + s[len(s)-limit/2:]
	}
	return "\t" + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n\t")
}

// Process is a running rping.
type Process struct {
	program        Program
	cmd            *exec.Cmd
	stdout, stderr lockedBuffer
	done           chan struct{}
}

// maxOutput is the maximum output of a program. A program with endless output would exhaust the
// memory of its virtual machine. It gets a broken pipe.
const maxOutput = 16 << 20

var errOutput = errors.New("too much output")

// lockedBuffer can be read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.b.Len()+len(p) > maxOutput {
		return 0, errOutput
	}
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Start starts an rping, which is killed when ctx ends.
func Start(ctx context.Context, p Program, args ...string) (*Process, error) {
	proc := &Process{program: p, cmd: exec.CommandContext(ctx, p.Path, args...), done: make(chan struct{})}
	proc.cmd.Stdout, proc.cmd.Stderr = &proc.stdout, &proc.stderr
	proc.cmd.WaitDelay = time.Second
	if err := proc.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s rping: %w", p.Name, err)
	}
	go func() {
		defer close(proc.done)
		proc.cmd.Wait() // the status contains the result
	}()
	return proc, nil
}

// Signal sends a signal.
func (p *Process) Signal(sig syscall.Signal) { p.cmd.Process.Signal(sig) }

// Alive reports whether the process is still running.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ClosedChannel reports whether a client of rdma-core's rping printed output because of a race at its
// orderly end. Its main thread closes the event channel, and its other thread then reads it. The status of
// such a client is 255 (docs/reference/driver-faults.md).
func ClosedChannel(output string) bool {
	return output == "client DISCONNECT EVENT...\nrdma_get_cm_event: Bad file descriptor\n"
}

// Output returns the output so far. The status is valid after Wait.
func (p *Process) Output() Output {
	o := Output{Stdout: p.stdout.String(), Stderr: p.stderr.String()}
	if p.Alive() {
		return o
	}
	if st := p.cmd.ProcessState; st != nil {
		o.Status = st.ExitCode()
		if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			o.Status = 128 + int(ws.Signal())
		}
		if p.program.Name == "C" && o.Status == 255 && ClosedChannel(o.Stderr) {
			o.Status = 0
		}
	}
	return o
}

var errTimeout = errors.New("timeout")

// Wait waits for the end of the process, and kills it after limit.
func (p *Process) Wait(limit time.Duration) (Output, error) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
		return p.Output(), nil
	case <-t.C:
		// A Go program prints its stacks, and any program ends.
		p.Signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-time.After(2 * time.Second):
			p.cmd.Process.Kill()
			<-p.done
		}
		return p.Output(), errTimeout
	}
}

// endAfter is the time that a process has to end after its output has shown a failure.
const endAfter = time.Second

// waitUnless is like Wait, but kills a process that continues after failed has reported true
// for its output.
func (p *Process) waitUnless(failed func(Output) bool, limit time.Duration) (Output, error) {
	for end := time.Now().Add(limit); !failed(p.Output()); {
		left := time.Until(end)
		switch {
		case !p.Alive():
			return p.Output(), nil
		case left <= 0:
			return p.Wait(0)
		}
		select {
		case <-p.done:
		case <-time.After(min(left, 20*time.Millisecond)):
		}
	}
	select {
	case <-p.done:
	case <-time.After(endAfter):
		p.cmd.Process.Kill()
		<-p.done
	}
	return p.Output(), nil
}
