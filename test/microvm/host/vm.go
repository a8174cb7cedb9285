// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"purerdma/test/microvm/progress"
	"purerdma/test/microvm/qemu"
	"purerdma/test/microvm/wire"
)

// Time limits for a guest that hangs. They are generous because software emulation on a busy
// machine is slow.
const (
	bootLimit = 2 * time.Minute
	hangLimit = time.Minute // in addition to the program's time
	exitLimit = 20 * time.Second
)

// A vm is one running virtual machine.
type vm struct {
	o              *Options
	stdout, stderr io.Writer
	conn           *wire.Conn
	proc           *qemu.Process
	console        string // file
	log            string // file for the kernel's log
	start          time.Time
	input          *input
	kmsg           bytes.Buffer // the kernel's log
	mark           int          // kmsg's length at the command's start
	hcas           *hcas        // nil unless the driver's devices are modeled
	status         int          // status of the first failed command
	failed         string       // reason of the guest's failure

	mu      sync.Mutex
	running bool        // whether a command is running
	limit   *time.Timer // timer that calls end

	ctx   context.Context
	end   context.CancelCauseFunc // ends the VM
	stdin *os.File
}

// boot starts virtual machine number i.
func (o *Options) boot(ctx context.Context, p *parts, dir string, i int) (*vm, error) {
	m, err := o.machine(p, dir, i)
	if err != nil {
		return nil, err
	}
	mine, its, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer its.Close()
	m.Port = its
	v := &vm{
		o: o, stdout: o.Stdout, stderr: o.Stderr, conn: wire.NewConn(mine), start: time.Now(), hcas: p.hcas,
		console: m.Console, log: filepath.Join(p.logs, fmt.Sprintf("kernel%d.log", i)),
	}
	if i == 0 {
		v.stdin = o.Stdin // only one VM
	}
	if v.proc, err = p.qemu.Start(m); err != nil {
		mine.Close()
		return nil, err
	}
	v.ctx, v.end = context.WithCancelCause(ctx)
	return v, nil
}

// run waits for the virtual machine's end and returns the exit status.
func (v *vm) run() (int, error) {
	defer v.proc.Kill()
	defer v.end(nil)
	progress.Show(v.stderr, "rdmavm: booting")
	v.setLimit(bootLimit, "the virtual machine did not get so far as to run the program")
	frames := make(chan error, 1)
	go func() { frames <- v.receive() }()
	err := v.wait(frames)
	for _, w := range []io.Writer{v.stdout, v.stderr} {
		if p, ok := w.(*prefixWriter); ok {
			p.flush()
		}
	}
	progress.Show(v.stderr, "")
	v.saveLog()
	if err != nil {
		return Status, err
	}
	status, err := v.verdict()
	if _, out := v.proc.Status(); out != "" && status != 0 && err == nil {
		fmt.Fprintf(v.stderr, "rdmavm: output of QEMU: %s\n", out) // such as a failed access to a device
	}
	return status, err
}

// wait waits for the guest's last frame and for QEMU's end.
func (v *vm) wait(frames <-chan error) error {
	select {
	case err := <-frames:
		select {
		case <-v.proc.Done():
		case <-time.After(exitLimit):
			return v.explain(errors.New("the virtual machine has not ended"))
		}
		if err != nil {
			return v.explain(errors.New("the virtual machine ended before the program did"))
		}
		return nil
	case <-v.ctx.Done():
		err := context.Cause(v.ctx)
		if _, ok := errors.AsType[*SignalError](err); !ok {
			err = v.explain(err)
		}
		return err
	}
}

// setLimit ends the virtual machine after d with the given reason.
func (v *vm) setLimit(d time.Duration, reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.limit != nil {
		v.limit.Stop()
	}
	if d > 0 {
		v.limit = time.AfterFunc(d, func() { v.end(fmt.Errorf("%s within %v", reason, d)) })
	}
}

// verdict returns the exit status of a virtual machine that has ended.
func (v *vm) verdict() (int, error) {
	if v.failed != "" {
		return Status, v.explain(errors.New(v.failed))
	}
	if status, output := v.proc.Status(); status != qemu.OrderlyExit {
		return Status, v.explain(fmt.Errorf("QEMU ended with status %d, without an orderly end: %s", status, output))
	}
	log := v.kmsg.Bytes()
	if v.kmsg.Len() == 0 {
		log, _ = os.ReadFile(v.console)
	}
	bad, excused := scanLog(log)
	if len(excused) > 0 {
		fmt.Fprintf(v.stderr, "rdmavm: the kernel reported a known driver fault %d times (docs/reference/driver-faults.md): %s\n", len(excused), excused[0])
	}
	if bad != nil {
		fmt.Fprintf(v.stderr, "rdmavm: the kernel reported trouble (whole log: %s):\n%s\n", v.log, bad)
		if v.status == 0 {
			return Status, nil
		}
	}
	return v.status, nil
}

// saveLog stores the kernel's log for the user.
func (v *vm) saveLog() {
	console, _ := os.ReadFile(v.console)
	log := v.kmsg.Bytes()
	if len(console) > 0 {
		log = append(append(log[:len(log):len(log)], "--- console:\n"...), console...)
	}
	os.WriteFile(v.log, log, 0o644)
}

// explain adds QEMU's output and the guest's console to an error.
func (v *vm) explain(err error) error {
	select {
	case <-v.proc.Done():
		if _, out := v.proc.Status(); out != "" {
			err = fmt.Errorf("%w; output of QEMU: %s", err, out)
		}
	default:
	}
	console, _ := os.ReadFile(v.console)
	text, _ := scanLog(console)
	if text == nil {
		text = tail(console, 40)
	}
	if len(text) == 0 {
		return fmt.Errorf("%w; the console is empty", err)
	}
	return fmt.Errorf("%w; end of the console (whole log: %s):\n%s", err, v.log, text)
}
