// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"purerdma/test/microvm/progress"
	"purerdma/test/microvm/wire"
)

// maxLog bounds the stored part of the kernel's log, in bytes.
const maxLog = 64 << 20

// kmsgLines is the number of kernel messages that are printed when a program of a list fails.
const kmsgLines = 40

// receive handles the guest's frames until the last one. It validates them, because the guest
// may send anything.
func (v *vm) receive() error {
	for {
		k, data, err := v.conn.Receive()
		if err != nil {
			return err
		}
		switch k {
		case wire.Stdout:
			v.stdout.Write(data)
		case wire.Stderr:
			v.stderr.Write(data)
		case wire.Kmsg:
			v.kmsg.Write(data[:min(len(data), maxLog-v.kmsg.Len())])
			if v.o.Verbose {
				v.stderr.Write(data)
			}
		case wire.StdinAck:
			err = v.input.ack(data)
		case wire.Note:
			progress.Show(v.stderr, "rdmavm: booting, %s", data)
			if v.o.Verbose {
				fmt.Fprintf(v.stderr, "rdmavm: %s, %.1f s after the start\n", data, time.Since(v.start).Seconds())
			}
		case wire.Fault:
			err = v.fault(data)
		case wire.Start:
			err = v.started(data)
		case wire.End:
			err = v.ended(data)
		case wire.Failed, wire.Done:
			if k == wire.Failed {
				v.failed = string(data)
			}
			v.setLimit(0, "")
			return v.conn.Send(wire.Bye, nil)
		}
		if err != nil {
			return err
		}
	}
}

// fault executes a line of a program in the guest and sends the result to the guest.
func (v *vm) fault(data []byte) error {
	err := fmt.Errorf("-driver %s has no faults: its devices are not modeled", v.o.Driver)
	if v.hcas != nil {
		err = v.hcas.fault(string(data))
	}
	answer := ""
	if err != nil {
		answer = err.Error()
	}
	return v.conn.Send(wire.FaultDone, []byte(answer))
}

// started records the start of a command.
func (v *vm) started(data []byte) error {
	var s wire.Started
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	c, err := v.command(s.Index)
	if err != nil {
		return err
	}
	progress.Show(v.stderr, "")
	if v.o.Headers {
		fmt.Fprintf(v.stderr, "rdmavm: [%d/%d] %s: %s\n", s.Index+1, len(v.o.Commands), c.Dir, strings.Join(c.Args, " "))
	}
	if v.input == nil {
		v.input = newInput(v.stdin, v.conn)
	}
	if v.o.Started != nil {
		v.o.Started(v.conn)
	}
	v.setRunning(true)
	v.mark = v.kmsg.Len()
	if v.o.Timeout > 0 {
		v.setLimit(v.o.Timeout+hangLimit, "the virtual machine hangs: the program did not end")
	} else {
		v.setLimit(0, "")
	}
	return nil
}

// command returns the command with the guest's index.
func (v *vm) command(index int) (wire.Command, error) {
	if index < 0 || index >= len(v.o.Commands) {
		return wire.Command{}, fmt.Errorf("the guest sent index %d of %d commands", index, len(v.o.Commands))
	}
	return v.o.Commands[index], nil
}

// ended records the end of a command.
func (v *vm) ended(data []byte) error {
	var e wire.Ended
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	c, err := v.command(e.Index)
	if err != nil {
		return err
	}
	v.setRunning(false)
	v.setLimit(hangLimit, "the virtual machine hangs after the program's end: nothing came")
	name := c.Args[0]
	switch {
	case e.Error != "":
		fmt.Fprintf(v.stderr, "rdmavm: running %s in the guest: %s\n", name, e.Error)
	case e.Timeout:
		fmt.Fprintf(v.stderr, "rdmavm: %s ran longer than -timeout %v and was ended\n", name, v.o.Timeout)
	}
	if v.o.Headers {
		verdict := "ok"
		if e.Status != 0 {
			verdict = fmt.Sprintf("exit status %d", e.Status)
			if log := tail(v.kmsg.Bytes()[v.mark:], kmsgLines); len(log) > 0 {
				fmt.Fprintf(v.stderr, "rdmavm: the kernel's last messages while %s ran:\n%s\n", name, log)
			}
		}
		fmt.Fprintf(v.stderr, "rdmavm: [%d/%d] %s, %.2f s\n", e.Index+1, len(v.o.Commands), verdict, e.Elapsed.Seconds())
	}
	if v.status == 0 {
		v.status = e.Status
	}
	return nil
}

func (v *vm) setRunning(b bool) {
	v.mu.Lock()
	v.running = b
	v.mu.Unlock()
}
