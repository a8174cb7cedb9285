// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/cm"
	"purerdma/internal/leak"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func local(h vmtest.Host) cm.Addr { return cm.AddrFrom(netip.AddrPortFrom(h.IPv4, 0)) }

// child runs a peer as a separate process. It listens, prints its address, and serves until its
// standard input ends.
func child(seed string) int {
	leak.Enable()
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		fmt.Println("FAULT", err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := newSoak(ctx, number)
	// Report at once, before the other side detects the consequences.
	told := make(chan struct{})
	context.AfterFunc(s.failed, func() {
		fmt.Println("FAULT", strings.ReplaceAll(s.err().Error(), "\n", " "))
		close(told)
	})
	if err := s.child(cancel); err != nil {
		s.fault("%w", err)
	}
	if s.failed.Err() != nil {
		<-told
		return 1
	}
	if left := leak.Report(); len(left) > 0 {
		fmt.Println("FAULT left open:", strings.ReplaceAll(strings.Join(left, " "), "\n", " "))
		return 1
	}
	fmt.Println("END", &s.stats)
	return 0
}

func (s *soak) child(stop func()) error {
	hosts, err := vmtest.Ends()
	if err != nil {
		return err
	}
	n, err := openNode(s, verbs.DefaultHost(), hosts[1])
	if err != nil {
		return err
	}
	ln, err := n.listen()
	if err != nil {
		return err
	}
	fmt.Println("AT", ln.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
		ln.Close()
	}()
	n.serve(ln)
	return n.Close()
}

// peer is a child process, and its successors after kills.
type peer struct {
	s *soak

	mu      sync.Mutex
	cmd     *exec.Cmd
	stdin   io.Closer
	addr    string
	killed  *atomic.Bool // whether this process was killed
	said    chan struct{}
	stopped bool
}

// spawn starts the process and waits until it listens.
func (p *peer) spawn() error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SOAK_CHILD="+strconv.FormatUint(p.s.seed, 10))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	killed, said, at := new(atomic.Bool), make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(said)
		ended, fault := false, false
		for lines.Scan() {
			switch what, rest, _ := strings.Cut(lines.Text(), " "); what {
			case "AT":
				at <- rest
			case "END":
				ended = true
			case "FAULT":
				fault = true
				p.s.fault("in the other process: %s", rest)
			default:
				fmt.Fprintln(os.Stderr, lines.Text())
			}
		}
		close(at)
		if !ended && !fault && !killed.Load() {
			p.s.fault("the other process has died")
		}
	}()
	addr, ok := <-at
	if !ok {
		cmd.Wait()
		return fmt.Errorf("the child process does not listen")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.stdin, p.addr, p.killed, p.said = cmd, in, addr, killed, said
	return nil
}

// target returns the address of the process.
func (p *peer) target() (target, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return target{p.addr, p.killed.Load}, p.s.failed.Err() == nil
}

// kill kills the process like a crash, and starts another. It does nothing while the peers are
// to stop.
func (p *peer) kill() error {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return nil
	}
	p.killed.Store(true)
	p.cmd.Process.Kill()
	<-p.said
	p.cmd.Wait()
	p.stdin.Close()
	p.mu.Unlock()
	p.s.stats.kills.Add(1)
	return p.spawn()
}

// haunt kills the process at random intervals until the time is up.
func (p *peer) haunt(number uint32) {
	rng := p.s.rand(1<<20, number)
	for {
		select {
		case <-p.s.ctx.Done():
			return
		case <-p.s.failed.Done():
			return
		case <-time.After(time.Duration(3000+rng.IntN(9000)) * time.Millisecond):
		}
		if err := p.kill(); err != nil {
			p.s.fault("another process: %w", err)
			return
		}
	}
}

// stop ends the process when it has no connections.
func (p *peer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	p.stopped = true
	p.stdin.Close()
	select {
	case <-p.said:
	case <-time.After(p.s.patience):
		p.s.fault("the other process does not end")
		p.killed.Store(true)
		p.cmd.Process.Kill()
		<-p.said
	}
	p.cmd.Wait()
}
