// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/rxe"
	"purerdma/provider/siw"
	"purerdma/uverbs"
)

// DeviceInfo is one RDMA device, open or not.
type DeviceInfo = uverbs.DeviceInfo

// Host opens devices, each once, and shares them: connections that were made
// through one Host can share protection domains, memory and completion queues.
// Most programs have one, DefaultHost. The zero Host knows no drivers. The
// fields must not change once the Host is in use; its methods may be called
// concurrently.
type Host struct {
	// Drivers are the user-space halves of kernel drivers.
	Drivers []provider.Driver
	// Kernel is where devices come from; nil is the running kernel. Tests put
	// a fake one here (package uverbstest).
	Kernel uverbs.Kernel
	// Trace, if not nil, gets every command that devices are given, with its
	// input and answer, at level Debug. If it is nil, the environment decides:
	// RDMA_TRACE=1 writes them to standard error.
	Trace *slog.Logger
	// Log, if not nil, gets the events of the connection manager, each with what
	// it has done to its ID: at level Info how connections begin and end, at
	// Debug the others. At level Error it gets the faults of devices that no call
	// returns, as completions that a provider does not understand.
	Log *slog.Logger

	once   sync.Once
	traced uverbs.Kernel // Kernel or what is in its place, after once

	mu   sync.Mutex
	open map[string]*shared // by name
}

var defaultHost = sync.OnceValue(func() *Host {
	return &Host{Drivers: []provider.Driver{
		mlx5.Driver{},
		rxe.Driver{},
		siw.Driver{},
	}}
})

// DefaultHost returns the Host of the process, with all drivers of this module.
func DefaultHost() *Host { return defaultHost() }

func (h *Host) kernel() uverbs.Kernel {
	h.once.Do(func() {
		k := h.Kernel
		if k == nil {
			k = uverbs.System{}
		}
		h.traced = uverbs.Traced(k, h.Trace)
	})
	return h.traced
}

// Devices lists the RDMA devices of the host that this network namespace sees
// (ibv_get_device_list(3)), also those that no Driver is for.
func (h *Host) Devices() ([]DeviceInfo, error) {
	infos, err := h.kernel().Devices()
	if err != nil {
		return nil, &OpError{Op: "list", Object: "RDMA devices", Err: err}
	}
	return infos, nil
}

// Open opens a device by its name, as "rxe0" (ibv_open_device(3)). The error
// wraps ErrNoDevice, a *NodeError or a *NoProviderError. The caller closes the
// device.
func (h *Host) Open(name string) (*Device, error) {
	return h.find(name, func(d *DeviceInfo) bool { return d.Name == name })
}

// openIndex is bridge.Verbs.OpenIndex.
func (h *Host) openIndex(index int, guid uint64) (*Device, error) {
	return h.find("device", func(d *DeviceInfo) bool {
		if index >= 0 && d.Index >= 0 {
			return d.Index == index
		}
		return guid != 0 && d.NodeGUID == guid
	})
}

func (h *Host) find(name string, match func(*DeviceInfo) bool) (*Device, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// An open device is found without asking the kernel: its name may have
	// been changed since, but not its index.
	for _, s := range h.open {
		if match(&s.info) {
			s.refs++
			return &Device{shared: s}, nil
		}
	}
	infos, err := h.kernel().Devices()
	if err != nil {
		return nil, &OpError{Op: "open", Object: name, Err: err}
	}
	for i := range infos {
		if match(&infos[i]) {
			return h.openLocked(infos[i])
		}
	}
	return nil, &OpError{Op: "open", Object: name, Err: fmt.Errorf("%w: there %s", ErrNoDevice, listed(infos))}
}

// listed says which devices there are.
func listed(infos []uverbs.DeviceInfo) string {
	switch len(infos) {
	case 0:
		return "is none (rdmadoctor says what is missing)"
	case 1:
		return "is " + infos[0].Name + " alone"
	}
	names := make([]string, len(infos))
	for i := range infos {
		names[i] = infos[i].Name
	}
	return "are " + strings.Join(names, ", ")
}

// openLocked opens the context that is shared from now on. The caller holds the
// lock, so that nobody opens the device a second time meanwhile.
func (h *Host) openLocked(info DeviceInfo) (*Device, error) {
	s, err := h.newShared(info)
	if err != nil {
		return nil, &OpError{Op: "open", Object: info.Name, Err: fileLimitError(err)}
	}
	if h.open == nil {
		h.open = make(map[string]*shared)
	}
	h.open[info.Name] = s
	return &Device{shared: s}, nil
}

func (h *Host) newShared(info DeviceInfo) (*shared, error) {
	driver, err := h.driver(&info)
	if err != nil {
		return nil, err
	}
	if info.Node == "" {
		return nil, &NodeError{Device: info.Name, Err: fs.ErrNotExist}
	}
	file, err := uverbs.Open(h.kernel(), info)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			return nil, &NodeError{Device: info.Name, Path: info.Node, Err: err}
		}
		return nil, err
	}
	s := &shared{host: h, info: info, file: file, removed: make(chan struct{}), refs: 1}
	s.self = &Device{shared: s, borrowed: true}
	if s.ctx, err = driver.Open(file); err == nil {
		if l, ok := s.ctx.(provider.Logger); ok {
			l.SetLog(h.Log)
		}
		err = s.needKernel()
	}
	if err == nil {
		err = s.query()
	}
	if err == nil {
		err = s.watch()
	}
	if err != nil {
		return nil, errors.Join(kernelError(info.Name, err), s.close())
	}
	return s, nil
}

func (h *Host) driver(info *DeviceInfo) (provider.Driver, error) {
	e := &NoProviderError{Device: info.Name, Driver: info.DriverID, ABIVersion: info.ABIVersion}
	for _, d := range h.Drivers {
		if d.ID() != info.DriverID {
			continue
		}
		if e.Min, e.Max = d.ABIVersions(); e.Min <= info.ABIVersion && info.ABIVersion <= e.Max {
			return d, nil
		}
	}
	return nil, e
}
