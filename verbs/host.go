// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"purerdma/provider"
	bnxtre "purerdma/provider/bnxt_re"
	"purerdma/provider/erdma"
	"purerdma/provider/mlx5"
	"purerdma/provider/rxe"
	"purerdma/provider/siw"
	"purerdma/uverbs"
)

// DeviceInfo is one RDMA device, open or not.
type DeviceInfo = uverbs.DeviceInfo

// Host opens devices, each once, and shares them. Connections that were made through one Host can
// share protection domains, memory and completion queues. Most programs have one, DefaultHost. The
// zero Host has no drivers. The fields must not change once the Host is in use. Its methods may be
// called concurrently.
type Host struct {
	// Drivers are the user-space parts of kernel drivers.
	Drivers []provider.Driver
	// Kernel provides the devices. nil is the running kernel. Tests use a fake (package
	// uverbstest).
	Kernel uverbs.Kernel
	// Trace, if not nil, logs every command to a device, with its input and output, at level Debug.
	// If it is nil, the environment decides. RDMA_TRACE=1 writes the commands to standard error.
	Trace *slog.Logger
	// Log, if not nil, logs the events of the connection manager, each with the resulting state of
	// its ID. The beginning and end of connections have level Info, other events have level Debug.
	// Level Warn is for connect requests that a listener has refused or failed to answer.
	// Level Error is for faults of devices that no call returns, such as completions that a
	// provider does not understand.
	Log *slog.Logger

	once   sync.Once
	traced uverbs.Kernel // Kernel or its default, with tracing. Set by once

	cmOnce  sync.Once
	cmState any // of bridge.Verbs.HostValue. Set by cmOnce

	mu          sync.Mutex
	contexts    []*deviceContext        // with references
	closedStats map[string]*DeviceStats // counts of contexts without references, by device
	open        []*deviceContext        // newest first, because an older device may have had the name of a newer one
}

var defaultHost = sync.OnceValue(func() *Host {
	return &Host{Drivers: []provider.Driver{
		bnxtre.Driver{},
		erdma.Driver{},
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

// Devices lists the RDMA devices of the host that are visible in this network namespace
// (ibv_get_device_list(3)). Devices without a Driver are included.
func (h *Host) Devices() ([]DeviceInfo, error) {
	infos, err := h.kernel().Devices()
	if err != nil {
		return nil, &OpError{Op: "list", Object: "RDMA devices", Err: err}
	}
	return infos, nil
}

// Open opens a device by its name, as "rxe0" (ibv_open_device(3)). The error wraps ErrNoDevice, a
// *NodeError or a *NoProviderError. The caller closes the device.
func (h *Host) Open(name string) (*Device, error) {
	return h.find(name, func(d *DeviceInfo) bool { return d.Name == name })
}

// cmValue is bridge.Verbs.HostValue.
func (h *Host) cmValue(create func() any) any {
	h.cmOnce.Do(func() { h.cmState = create() })
	return h.cmState
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
	// An open device is found without a system call. Its name may have been changed since, but not
	// its index.
	for _, s := range h.open {
		if match(&s.info) {
			s.refs++
			return &Device{deviceContext: s}, nil
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

// listed formats the list of devices.
func listed(infos []uverbs.DeviceInfo) string {
	switch len(infos) {
	case 0:
		return "is none (run rdmadoctor to find the cause)"
	case 1:
		return "is only " + infos[0].Name
	}
	names := make([]string, len(infos))
	for i := range infos {
		names[i] = infos[i].Name
	}
	return "are " + strings.Join(names, ", ")
}

// openLocked opens the shared context. The caller holds the lock, so that the device is not opened
// twice.
func (h *Host) openLocked(info DeviceInfo) (*Device, error) {
	s, err := h.newContext(info)
	if err != nil {
		return nil, &OpError{Op: "open", Object: info.Name, Err: fileLimitError(err)}
	}
	h.open = slices.Insert(h.open, 0, s)
	h.contexts = append(h.contexts, s)
	return &Device{deviceContext: s}, nil
}

// forget takes a device off the list of the open ones. The caller holds the lock.
func (h *Host) forget(s *deviceContext) {
	h.open = slices.DeleteFunc(h.open, func(o *deviceContext) bool { return o == s })
}

func (h *Host) newContext(info DeviceInfo) (*deviceContext, error) {
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
	s := &deviceContext{host: h, info: info, file: file, removed: make(chan struct{}), refs: 1}
	s.self = &Device{deviceContext: s, borrowed: true}
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
