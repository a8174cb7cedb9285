// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stepper runs a program and counts the instructions of one of its functions, by executing them one by one
// (ptrace(2)). It needs only the kernel, and is not affected by other work on the machine.
type stepper struct {
	pid   int
	at    uintptr // address of the function
	saved [1]byte // its first byte, which a breakpoint replaces
	ours  []span  // the functions whose instructions count

	locked map[uint64]bool // executed instructions that are locked
}

// span is the addresses of a function.
type span struct{ from, to uint64 }

// cost has the instructions of a call.
type cost struct{ instructions, locked int }

var errNoPtrace = errors.New("this process may not trace another")

// steps returns the cost of each call of a program's function. It includes the functions that the function
// calls, except the runtime's. The runtime may preempt a goroutine at any call, and the data path uses the
// runtime only to copy memory.
func steps(bin string, args, env []string, function string) ([]cost, error) {
	s := &stepper{locked: map[uint64]bool{}}
	if err := s.symbols(bin, function); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // the tracer is a thread, not a process
	defer runtime.UnlockOSThread()
	cmd := exec.Command(bin, args...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) {
			return nil, errNoPtrace
		}
		return nil, err
	}
	s.pid = cmd.Process.Pid
	stop := time.AfterFunc(time.Minute, func() { syscall.Kill(s.pid, syscall.SIGKILL) })
	defer stop.Stop()
	counts, err := s.run()
	if err != nil {
		syscall.Kill(s.pid, syscall.SIGKILL)
		syscall.Wait4(s.pid, nil, syscall.WALL, nil)
	}
	return counts, err
}

// symbols finds the function, and all functions of this module.
func (s *stepper) symbols(bin, function string) error {
	f, err := elf.Open(bin)
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil {
		return err
	}
	for _, sym := range all {
		if sym.Name == function {
			s.at = uintptr(sym.Value)
		}
		if strings.HasPrefix(sym.Name, "purerdma/") || strings.HasPrefix(sym.Name, "main.") {
			s.ours = append(s.ours, span{sym.Value, sym.Value + sym.Size})
		}
	}
	if s.at == 0 {
		return fmt.Errorf("%s has no function %s", bin, function)
	}
	slices.SortFunc(s.ours, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return nil
}

// counts reports whether the instruction at an address counts.
func (s *stepper) counts(pc uint64) bool {
	i, exact := slices.BinarySearchFunc(s.ours, pc, func(f span, pc uint64) int { return cmp.Compare(f.from, pc) })
	return exact || i > 0 && pc < s.ours[i-1].to
}

func (s *stepper) run() ([]cost, error) {
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(s.pid, &ws, syscall.WALL, nil); err != nil || !ws.Stopped() {
		return nil, errNoPtrace
	}
	if err := syscall.PtraceSetOptions(s.pid, syscall.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		return nil, err
	}
	if _, err := syscall.PtracePeekText(s.pid, s.at, s.saved[:]); err != nil {
		return nil, err
	}
	if err := s.breakpoint(s.pid); err != nil {
		return nil, err
	}
	var counts []cost
	for tid := s.pid; ; {
		if err := syscall.PtraceCont(tid, deliver(ws)); err != nil && err != syscall.ESRCH {
			return nil, err
		}
		var err error
		if tid, err = syscall.Wait4(-1, &ws, syscall.WALL, nil); err != nil {
			return nil, err
		}
		switch {
		case tid == s.pid && (ws.Exited() || ws.Signaled()):
			if ws.ExitStatus() != 0 {
				return nil, fmt.Errorf("the program ended with status %d", ws.ExitStatus())
			}
			return counts, nil
		case !ws.Stopped() || ws.StopSignal() != syscall.SIGTRAP || ws.TrapCause() > 0:
			continue
		}
		n, err := s.call(tid)
		if err != nil {
			return nil, err
		}
		counts = append(counts, n)
	}
}

// deliver returns the signal that stopped a thread and must be delivered to it. It returns 0 for signals of the
// tracing itself.
func deliver(ws syscall.WaitStatus) int {
	if !ws.Stopped() {
		return 0
	}
	if sig := ws.StopSignal(); sig != syscall.SIGTRAP && sig != syscall.SIGSTOP {
		return int(sig)
	}
	return 0
}

// await waits until a thread has made its step. Other threads continue, because the thread may wait for them.
func (s *stepper) await(tid int) error {
	for {
		var ws syscall.WaitStatus
		other, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case err != nil:
			return err
		case other == s.pid && (ws.Exited() || ws.Signaled()):
			return errors.New("the program ended within the function")
		case other == tid:
			return nil
		case ws.Stopped():
			if err := syscall.PtraceCont(other, deliver(ws)); err != nil && err != syscall.ESRCH {
				return err
			}
		}
	}
}

func (s *stepper) breakpoint(tid int) error {
	_, err := syscall.PtracePokeText(tid, s.at, []byte{0xcc})
	return err
}

// call counts one call of the function. A thread has stopped at the function's breakpoint.
func (s *stepper) call(tid int) (n cost, err error) {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return n, err
	}
	if regs.Rip != uint64(s.at)+1 {
		return n, fmt.Errorf("the thread stopped at %#x, want %#x", regs.Rip, s.at+1)
	}
	regs.Rip = uint64(s.at)
	if err := syscall.PtraceSetRegs(tid, &regs); err != nil {
		return n, err
	}
	if _, err := syscall.PtracePokeText(tid, s.at, s.saved[:]); err != nil {
		return n, err
	}
	var ret [8]byte
	if _, err := syscall.PtracePeekText(tid, uintptr(regs.Rsp), ret[:]); err != nil {
		return n, err
	}
	back, sp := binary.LittleEndian.Uint64(ret[:]), regs.Rsp
	for {
		if s.counts(regs.Rip) {
			n.instructions++
			is, known := s.locked[regs.Rip]
			if !known {
				var code [15]byte // code continues after the last function, so that 15 bytes can be read
				if _, err := syscall.PtracePeekText(tid, uintptr(regs.Rip), code[:]); err != nil {
					return n, err
				}
				is = locked(code[:])
				s.locked[regs.Rip] = is
			}
			if is {
				n.locked++
			}
		}
		if err := syscall.PtraceSingleStep(tid); err != nil {
			return n, err
		}
		if err := s.await(tid); err != nil {
			return n, err
		}
		if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
			return n, err
		}
		if regs.Rip == back && regs.Rsp > sp {
			return n, s.breakpoint(tid)
		}
	}
}

// locked reports whether an instruction of 64-bit mode is locked. It has the LOCK prefix, or is an XCHG with
// memory, which needs no prefix (Intel SDM, volume 2, "LOCK").
func locked(code []byte) bool {
	for i, b := range code {
		switch {
		case b == 0xf0:
			return true
		case b == 0x66 || b == 0xf2 || b == 0xf3 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0x26 || b == 0x64 || b == 0x65 || b>>4 == 4:
			// The other prefixes. REX is the last one.
		default:
			return (b == 0x86 || b == 0x87) && i+1 < len(code) && code[i+1]>>6 != 3
		}
	}
	return false
}
