// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"purerdma/test/microvm/qemu"
	"purerdma/test/microvm/wire"
)

// runVMs runs the one virtual machine, or the two.
func (o *Options) runVMs(ctx context.Context, p *parts, dir string) (int, error) {
	return o.runVM(ctx, p, dir, 0)
}

// A vm is one virtual machine that runs.
type vm struct {
	o    *Options
	cfg  *wire.Config
	conn *wire.Conn
	proc *qemu.Process
	kmsg bytes.Buffer // the kernel's log

	status int  // of the first command that failed
	done   bool // all commands have ended
	failed string
	start  time.Time
	input  *input
}

// runVM boots a virtual machine, runs the commands in it and waits for its
// end.
func (o *Options) runVM(ctx context.Context, p *parts, dir string, i int) (int, error) {
	cfg, m, err := o.machine(p, dir, i)
	if err != nil {
		return Status, setup(err)
	}
	mine, its, err := socketPair()
	if err != nil {
		return Status, setup(err)
	}
	defer mine.Close()
	m.Port = its
	v := &vm{o: o, cfg: cfg, conn: wire.NewConn(mine), start: time.Now()}
	if v.proc, err = p.qemu.Start(m); err != nil {
		its.Close()
		return Status, setup(err)
	}
	its.Close()
	defer v.proc.Kill()
	v.input = newInput(o.Stdin, v.conn)
	frames := make(chan error, 1)
	go func() { frames <- v.receive() }()
	if err := v.wait(ctx, frames); err != nil {
		return Status, setup(v.explain(err, m.Console))
	}
	return v.verdict(m.Console)
}

// wait waits for the guest's last frame and for QEMU's end.
func (v *vm) wait(ctx context.Context, frames <-chan error) error {
	for {
		select {
		case err := <-frames:
			if err != nil && v.failed == "" {
				// QEMU closed the channel: it has ended or will now.
				select {
				case <-v.proc.Done():
				case <-time.After(5 * time.Second):
				}
				return errors.New("the virtual machine ended before the program did")
			}
			select {
			case <-v.proc.Done():
				return nil
			case <-time.After(20 * time.Second):
				return errors.New("the virtual machine does not end")
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// receive handles the guest's frames until the last one.
func (v *vm) receive() error {
	for {
		k, data, err := v.conn.Receive()
		if err != nil {
			return err
		}
		switch k {
		case wire.Stdout:
			v.o.Stdout.Write(data)
		case wire.Stderr:
			v.o.Stderr.Write(data)
		case wire.Kmsg:
			v.kmsg.Write(data)
			if v.o.Verbose {
				v.o.Stderr.Write(data)
			}
		case wire.StdinAck:
			v.input.ack(data)
		case wire.Note:
			if v.o.Verbose {
				fmt.Fprintf(v.o.Stderr, "rdmavm: %s, %.1f s after the start\n", data, time.Since(v.start).Seconds())
			}
		case wire.Start:
		case wire.End:
			if err := v.ended(data); err != nil {
				return err
			}
		case wire.Failed:
			v.failed = string(data)
			return v.conn.Send(wire.Bye, nil)
		case wire.Done:
			v.done = true
			return v.conn.Send(wire.Bye, nil)
		}
	}
}

// ended takes down how a command ended.
func (v *vm) ended(data []byte) error {
	var e wire.Ended
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	c := v.o.Commands[e.Index]
	if e.Error != "" {
		fmt.Fprintf(v.o.Stderr, "rdmavm: running %s in the guest: %s\n", c.Args[0], e.Error)
	}
	if e.Timeout {
		fmt.Fprintf(v.o.Stderr, "rdmavm: %s ran longer than -timeout %v\n", c.Args[0], v.o.Timeout)
	}
	if v.status == 0 {
		v.status = e.Status
	}
	return nil
}

// verdict is the exit status of a virtual machine that came to its end.
func (v *vm) verdict(console string) (int, error) {
	if v.failed != "" {
		return Status, setup(v.explain(errors.New(v.failed), console))
	}
	status, output := v.proc.Status()
	if status != qemu.OrderlyExit {
		return Status, setup(v.explain(fmt.Errorf("QEMU ended with status %d, not in the orderly way: %s", status, output), console))
	}
	return v.status, nil
}

// explain adds the end of the kernel's log to an error.
func (v *vm) explain(err error, console string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	log, _ := os.ReadFile(console)
	select {
	case <-v.proc.Done():
		if _, out := v.proc.Status(); out != "" {
			err = fmt.Errorf("%w; QEMU says: %s", err, out)
		}
	default:
	}
	return fmt.Errorf("%w; the console ends with:\n%s", err, tail(log, 40))
}

// tail returns the last n lines of a log.
func tail(log []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(bytes.ReplaceAll(log, []byte("\r"), nil)), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
