// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"purerdma/cm"
	"purerdma/internal/leak"
	"purerdma/internal/vmtest"
)

// process is another process, which listens. It is killed and started again.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	addr   string
	killed chan struct{} // closed before the process is killed
	ended  chan struct{} // closed when it has ended
}

// died reports whether the process was killed. A nil process is this one.
func (p *process) died() bool {
	return p != nil && closed(p.killed)
}

// childEnv has the number of the protocol in the environment of a child.
const childEnv = "CONNECTIONS_CHILD"

// child is the main function of another process. It listens and prints its address, until its standard input
// ends.
func child(number string) error {
	leak.Enable()
	flag.Parse()
	i, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	hosts, err := vmtest.Ends()
	if err != nil {
		return err
	}
	s := newSoak(context.Background(), &protocols[i], 0)
	ln, err := s.protocol.listen(s.ctx, listenConfig, net.JoinHostPort(hosts[1].IPv4.String(), "0"))
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		ln.Close()
	}()
	s.serve(ln, &process{killed: closedChan()}) // the parent's connections are checked by the parent
	left := leak.Report()
	for end := time.Now().Add(s.patience); len(left) > 0 && time.Now().Before(end); left = leak.Report() {
		time.Sleep(10 * time.Millisecond) // a Close may linger
	}
	if len(left) > 0 {
		s.fault("left open: %s", strings.Join(left, ", "))
	}
	return s.err()
}

// spawn starts a child and waits until it listens.
func (s *soak) spawn(number int) (*process, error) {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), childEnv+"="+strconv.Itoa(number))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	p := &process{cmd: cmd, stdin: in, addr: strings.TrimSpace(addr), killed: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if err := cmd.Wait(); err != nil && !p.died() {
			s.fault("another process has failed: %w", err)
		}
	}()
	return p, err
}

// kill kills the process like a crash.
func (p *process) kill() {
	close(p.killed)
	p.cmd.Process.Kill()
	<-p.ended
}

// peer is a child, and its successors.
type peer struct {
	s      *soak
	number int
	replug func() // removes the child's device and creates it again, or nil

	mu sync.Mutex
	p  *process
}

func (p *peer) current() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.p
}

// run starts the child, and kills it at random intervals until the run ends. Then it waits until the
// child has ended, which it does after its connections.
func (p *peer) run(started chan<- struct{}, idle <-chan struct{}) {
	rng := rand.New(rand.NewPCG(p.s.seed, 1<<32+uint64(p.number)))
	for first := true; ; first = false {
		process, err := p.s.spawn(p.number)
		if err != nil {
			p.s.fault("another process: %w", err)
		}
		p.mu.Lock()
		p.p = process
		p.mu.Unlock()
		if first {
			close(started)
		}
		if process == nil {
			return
		}
		select {
		case <-time.After(time.Duration(1000+rng.IntN(4000)) * time.Millisecond):
			process.kill()
			p.s.stats.kills.Add(1)
			if p.replug != nil && rng.IntN(2) == 0 {
				p.replug()
			}
			continue
		case <-p.s.ctx.Done():
		case <-p.s.failed.Done():
		}
		<-idle
		process.stdin.Close()
		select {
		case <-process.ended:
		case <-time.After(p.s.patience):
			p.s.fault("another process has not ended")
			process.kill()
		}
		return
	}
}

func (p *peer) dial(ctx context.Context, d cm.Dialer) (connection, *process, error) {
	process := p.current()
	c, err := p.s.protocol.dial(ctx, d, process.addr)
	return c, process, err
}

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
