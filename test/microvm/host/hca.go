// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"purerdma/test/microvm/kernel"
	"purerdma/test/pci"
	"purerdma/test/vfiouser"
)

// hcas contains the modeled devices of one run, one for each host, on one fabric. Their names
// are hca0 and hca1.
type hcas struct {
	sockets []string // sockets by number of the device.
	fabric  pci.Fabric
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu         sync.Mutex
	violations []pci.Violation
	errs       []error
}

// maxViolations bounds the number of stored violations.
const maxViolations = 20

// withHCAs calls f while devices of the model are running. Its error combines the errors of f
// and of the devices.
func (o *Options) withHCAs(ctx context.Context, m *kernel.Model, dir string, f func(h *hcas) error) (err error) {
	var trace *bufio.Writer
	if o.Trace != "" {
		file, err := os.Create(o.Trace)
		if err != nil {
			return fmt.Errorf("-trace: %w", err)
		}
		trace = bufio.NewWriter(file)
		defer func() { err = errors.Join(err, trace.Flush(), file.Close()) }()
	}
	h, err := startHCAs(ctx, m, o.Hosts, dir, trace)
	if err != nil {
		return err
	}
	return errors.Join(f(h), h.stop())
}

// startHCAs starts n devices of the model with sockets in dir. Each waits for a QEMU. It traces
// their operations to trace, unless that is nil.
func startHCAs(ctx context.Context, m *kernel.Model, n int, dir string, trace *bufio.Writer) (*hcas, error) {
	h := &hcas{fabric: m.New()}
	ctx, h.cancel = context.WithCancel(ctx)
	start := time.Now()
	for i := range n {
		name := fmt.Sprintf("hca%d", i)
		path := filepath.Join(dir, name)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			h.stop()
			return nil, fmt.Errorf("device model: %w", err)
		}
		context.AfterFunc(ctx, func() { l.Close() })
		memory := vfiouser.NewMemory(h.fabric)
		interrupts := vfiouser.NewInterrupts(h.fabric.Vectors())
		o := pci.Options{
			Name: name, Memory: memory,
			Interrupt: func(v int) { interrupts.Raise(v) },
			Violation: h.violation,
		}
		if m.NetDriver == "" {
			o.MAC = mac(i)
		}
		if trace != nil {
			o.Trace = func(r fmt.Stringer) { fmt.Fprintf(trace, "%.6f %v\n", time.Since(start).Seconds(), r) }
		}
		h.sockets = append(h.sockets, path)
		s := &vfiouser.Server{Function: h.fabric.Connect(o), Memory: memory, Interrupts: interrupts}
		h.wg.Go(func() {
			defer l.Close()
			conn, err := l.AcceptUnix()
			if err == nil {
				err = s.Serve(ctx, conn)
			}
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
				h.mu.Lock()
				h.errs = append(h.errs, fmt.Errorf("device model %s: %w", name, err))
				h.mu.Unlock()
			}
		})
	}
	return h, nil
}

// fault executes a line "DEVICE FAULT ARGUMENTS" of a program in the guest.
func (h *hcas) fault(line string) error {
	words := strings.Fields(line)
	err := errors.New("want DEVICE FAULT NUMBERS")
	if len(words) >= 2 {
		err = h.fabric.Fault(words[0], words[1], words[2:])
	}
	if err != nil {
		err = fmt.Errorf("fault %q: %w", strings.TrimSpace(line), err)
	}
	return err
}

// violation records a violation of the driver.
func (h *hcas) violation(v pci.Violation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.violations) < maxViolations {
		h.violations = append(h.violations, v)
	}
}

// stop ends the devices and returns their errors.
func (h *hcas) stop() error {
	h.cancel()
	h.wg.Wait()
	err := errors.Join(h.errs...)
	for _, v := range h.violations {
		err = errors.Join(err, fmt.Errorf("device model: driver violation: %w", v))
	}
	return err
}
