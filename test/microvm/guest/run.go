// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/wire"
)

// Exit statuses of a shell for programs that could not be started.
const (
	statusTimeout   = 124
	statusNoExec    = 126
	statusNotFound  = 127
	statusSignalled = 128
)

// quitGrace is the time that a program has to end after SIGQUIT, which makes the Go runtime
// print all stacks.
const quitGrace = 10 * time.Second

// command runs one command and reports its result. An error is a failure of the guest, not of
// the command.
func (g *guest) command(i int, c wire.Command) error {
	send := func(k wire.Kind, v any) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return g.conn.Send(k, b)
	}
	if err := send(wire.Start, wire.Started{Index: i}); err != nil {
		return err
	}
	start := time.Now()
	e := wire.Ended{Index: i}
	if err := g.exec(c, &e); err != nil {
		e.Status, e.Error = startStatus(err), err.Error()
	}
	e.Elapsed = time.Since(start)
	g.kmsg.drain()
	return send(wire.End, e)
}

// startStatus returns the exit status for a program that could not be started.
func startStatus(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return statusNotFound
	}
	return statusNoExec
}

// exec runs the command to its end.
func (g *guest) exec(c wire.Command, e *wire.Ended) error {
	path, err := lookPath(c)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{Path: path, Args: c.Args, Dir: c.Dir, Env: append(c.Env[:len(c.Env):len(c.Env)], g.env...)}
	cmd.Env = append(cmd.Env, "PWD="+c.Dir)
	var pumps sync.WaitGroup
	files, err := g.attach(cmd, &pumps)
	if err != nil {
		return err
	}
	err = cmd.Start()
	for _, f := range files {
		f.Close() // close the program's ends
	}
	if err != nil {
		pumps.Wait()
		g.stdin.program(nil)
		if errors.Is(err, unix.ENOENT) {
			err = fmt.Errorf("%w: the file exists, but its dynamic linker or interpreter does not", err)
		}
		return err
	}
	g.stdin.program(cmd.Process)
	var timedOut atomic.Bool
	if g.cfg.Timeout > 0 {
		t := time.AfterFunc(g.cfg.Timeout, func() {
			timedOut.Store(true)
			cmd.Process.Signal(unix.SIGQUIT)
			time.Sleep(quitGrace)
			cmd.Process.Kill()
		})
		defer t.Stop()
	}
	state, err := cmd.Process.Wait()
	g.stdin.program(nil)
	// Kill the remaining processes of the program. This also ends its output.
	unix.Kill(-1, unix.SIGKILL)
	pumps.Wait()
	reap()
	if err != nil {
		return err
	}
	ws := state.Sys().(syscall.WaitStatus)
	switch {
	case timedOut.Load():
		e.Timeout, e.Status = true, statusTimeout
	case ws.Signaled():
		e.Status = statusSignalled + int(ws.Signal())
	default:
		e.Status = ws.ExitStatus()
	}
	return nil
}

// lookPath finds the program like execvp(3), in the PATH of the command and relative to its
// working directory.
func lookPath(c wire.Command) (string, error) {
	name := c.Args[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.Dir, name)
		}
		return name, executable(name)
	}
	var path string
	for _, kv := range c.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	err := error(&exec.Error{Name: name, Err: exec.ErrNotFound})
	for _, dir := range append(filepath.SplitList(path), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin") {
		p := filepath.Join(dir, name)
		switch perr := executable(p); {
		case perr == nil:
			return p, nil
		case !errors.Is(perr, fs.ErrNotExist):
			err = perr
		}
	}
	return "", err
}

// executable returns the reason why a path cannot be executed, or nil.
func executable(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return &os.PathError{Op: "exec", Path: path, Err: unix.EISDIR}
	case st.Mode()&0o111 == 0:
		return &os.PathError{Op: "exec", Path: path, Err: unix.EACCES}
	}
	return nil
}

// attach connects the command's standard files with pipes or a terminal. It returns the
// program's ends.
func (g *guest) attach(cmd *exec.Cmd, pumps *sync.WaitGroup) ([]*os.File, error) {
	if g.cfg.TTY {
		return g.attachTTY(cmd, pumps)
	}
	var mine, its []*os.File
	pipe := func() (r, w *os.File, err error) {
		r, w, err = os.Pipe()
		return r, w, err
	}
	inR, inW, err := pipe()
	if err != nil {
		return nil, err
	}
	mine, its = append(mine, inW), append(its, inR)
	cmd.Stdin = inR
	for _, s := range []struct {
		kind wire.Kind
		file *io.Writer
	}{{wire.Stdout, &cmd.Stdout}, {wire.Stderr, &cmd.Stderr}} {
		r, w, err := pipe()
		if err != nil {
			return nil, err
		}
		its = append(its, w)
		*s.file = w
		pumps.Go(func() { g.pump(s.kind, r) })
	}
	g.stdin.attach(mine[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return its, nil
}

// pump passes on the data from r until its end.
func (g *guest) pump(k wire.Kind, r *os.File) {
	defer r.Close()
	buf := make([]byte, 32<<10-64) // such a frame fills one buffer of the port
	for {
		n, err := r.Read(buf)
		if n > 0 {
			g.conn.Send(k, buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// reap waits for orphaned processes.
func reap() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && err != unix.EINTR {
			return
		}
	}
}
