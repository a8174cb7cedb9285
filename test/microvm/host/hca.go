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
	"sync"
	"time"

	"purerdma/test/connectx"
	"purerdma/test/connectx/vfiouser"
)

// hcas contains the software ConnectX of one run, one for each host, on one fabric.
type hcas struct {
	sockets []string // sockets by number of the device.
	devices map[string]*connectx.Device
	fabric  *connectx.Fabric
	rules   map[string]*rule // rules by sending device, guarded by the fabric's lock.
	silent  map[string]bool  // devices whose messages and answers are lost, guarded by the fabric's lock
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu         sync.Mutex
	violations []connectx.Violation
	errs       []error
}

// maxViolations bounds the number of stored violations.
const maxViolations = 20

// withHCAs calls f while the devices are running. Its error combines the errors of f and of the
// devices.
func (o *Options) withHCAs(ctx context.Context, dir string, f func(h *hcas) error) (err error) {
	var trace *bufio.Writer
	if o.Trace != "" {
		file, err := os.Create(o.Trace)
		if err != nil {
			return fmt.Errorf("-trace: %w", err)
		}
		trace = bufio.NewWriter(file)
		defer func() { err = errors.Join(err, trace.Flush(), file.Close()) }()
	}
	h, err := startHCAs(ctx, o.Hosts, dir, trace)
	if err != nil {
		return err
	}
	return errors.Join(f(h), h.stop())
}

// startHCAs starts n devices with sockets in dir. Each waits for a QEMU. It traces their
// operations to trace, unless that is nil.
func startHCAs(ctx context.Context, n int, dir string, trace *bufio.Writer) (*hcas, error) {
	h := &hcas{fabric: connectx.NewFabric(), devices: make(map[string]*connectx.Device), rules: make(map[string]*rule), silent: make(map[string]bool)}
	ctx, h.cancel = context.WithCancel(ctx)
	start := time.Now()
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("hca%d", i))
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			h.stop()
			return nil, fmt.Errorf("software ConnectX: %w", err)
		}
		context.AfterFunc(ctx, func() { l.Close() })
		memory := vfiouser.NewMemory(h.fabric)
		interrupts := vfiouser.NewInterrupts(connectx.Vectors)
		cfg := connectx.Config{
			Name: fmt.Sprintf("hca%d", i), Memory: memory, Fabric: h.fabric,
			Interrupt: func(v int) { interrupts.Raise(v) },
			Violation: h.violation,
		}
		if trace != nil {
			cfg.Trace = func(r connectx.Record) { fmt.Fprintf(trace, "%.6f %v\n", time.Since(start).Seconds(), r) }
		}
		h.sockets = append(h.sockets, path)
		h.devices[cfg.Name] = connectx.New(cfg)
		s := &vfiouser.Server{Function: connectx.NewFunction(h.devices[cfg.Name]), Memory: memory, Interrupts: interrupts}
		h.wg.Go(func() {
			defer l.Close()
			conn, err := l.AcceptUnix()
			if err == nil {
				err = s.Serve(ctx, conn)
			}
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
				h.mu.Lock()
				h.errs = append(h.errs, fmt.Errorf("software ConnectX %d: %w", i, err))
				h.mu.Unlock()
			}
		})
	}
	return h, nil
}

// violation records a violation of the driver.
func (h *hcas) violation(v connectx.Violation) {
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
		err = errors.Join(err, fmt.Errorf("software ConnectX: driver violation: %w", v))
	}
	return err
}
