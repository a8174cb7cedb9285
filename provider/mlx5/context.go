// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/lograte"
	"purerdma/provider"
	"purerdma/provider/internal/dbrec"
	"purerdma/uverbs"
)

// Context is an open mlx5 device.
type Context struct {
	file      *uverbs.File
	pageSize  int
	caps      caps
	uars      uars
	doorbells dbrec.Pool
	resources resources
	noScatter bool // no QP's completions have data
	// noBlueFlame makes all QPs ring doorbells by single stores.
	noBlueFlame bool
	strict      bool // Driver.Strict
	log         *slog.Logger
	recorder    atomic.Pointer[Recorder] // of new queues, or nil
	skips       lograte.Counter          // completions that made no sense
	notEnded    lograte.Counter          // failing QPs that the kernel did not end

	mu    sync.Mutex
	ports map[uint8]port // cache of the queried ports
}

// port holds the properties of a port that address handles need.
type port struct {
	ethernet    bool
	grhRequired bool
}

// open makes the context of the kernel.
func (c *Context) open() error {
	total := totalBFRegs(c.pageSize)
	req := abi.Mlx5AllocUcontextReqV2{
		TotalNumBFRegs:      uint32(total),
		NumLowLatencyBFRegs: uint32(lowLatencyBFRegs(total)),
		MaxCQEVersion:       cqeVersion,
		LibCaps:             abi.MLX5_LIB_CAP_4K_UAR | abi.MLX5_LIB_CAP_DYN_UAR,
	}
	var resp abi.Mlx5AllocUcontextResp
	if _, err := c.file.GetContext(uverbs.Driver{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		return err
	}
	if err := c.caps.fromContext(&resp, c.pageSize); err != nil {
		return err
	}
	if err := c.uars.open(c, &resp, total); err != nil {
		return err
	}
	return c.queryDevice()
}

// queryDevice requests the capabilities that the response to GET_CONTEXT lacks.
func (c *Context) queryDevice() error {
	var resp abi.Mlx5QueryDeviceResp
	var drv uverbs.Driver
	if c.caps.queryDevice {
		drv.Out = abi.Bytes(&resp)
	}
	attr, err := c.file.QueryDeviceEx(drv)
	if err != nil {
		return fmt.Errorf("query mlx5 device: %w", err)
	}
	c.caps.fromDevice(&attr, &resp)
	return nil
}

// PacketCaps implements provider.PacketDevice.
func (c *Context) PacketCaps() provider.PacketCaps {
	return provider.PacketCaps{
		MaxTSO: c.caps.tso.MaxTSO, TSOQPTypes: c.caps.tso.SupportedQPTs,
		HashFunctions: c.caps.hashes.RXHashFunction, HashFields: c.caps.hashes.RXHashFieldsMask,
		RateMin: c.caps.pacing.QPRateLimitMin, RateMax: c.caps.pacing.QPRateLimitMax, RateQPTypes: c.caps.pacing.SupportedQPTs,
	}
}

// port returns what a port is, which does not change.
func (c *Context) port(num uint8) (port, error) {
	if num == 0 || int(num) > c.caps.ports {
		return port{}, fmt.Errorf("port %d of %d: %w", num, c.caps.ports, syscall.EINVAL)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.ports[num]; ok {
		return p, nil
	}
	attr, err := c.file.QueryPort(num)
	if err != nil {
		return port{}, err
	}
	p := port{
		ethernet:    attr.LegacyResp.LinkLayer == linkEthernet,
		grhRequired: attr.LegacyResp.Flags&abi.IB_UVERBS_QPF_GRH_REQUIRED != 0,
	}
	if c.ports == nil {
		c.ports = make(map[uint8]port)
	}
	c.ports[num] = p
	return p, nil
}

// ethernet reports whether the ports are Ethernet, which mlx5 devices have no mixture
// of. It fails if no port can be queried.
func (c *Context) ethernet() (bool, error) {
	var errs []error
	for num := range c.caps.ports {
		p, err := c.port(uint8(num + 1))
		if err == nil {
			return p.ethernet, nil
		}
		errs = append(errs, err)
	}
	return false, errors.Join(errs...)
}

// linkEthernet is IBV_LINK_LAYER_ETHERNET of ibv_query_port(3).
const linkEthernet = 2

// Close unmaps the registers. The context's objects have been closed, and so has its file, with
// which the kernel has destroyed all remaining objects. It may be called more than once.
func (c *Context) Close() error { return c.uars.close() }

// PinsQueues implements provider.QueuePinner.
func (c *Context) PinsQueues() {}

// Features returns the optional capabilities of the device.
func (c *Context) Features() provider.Features { return c.caps.features() }

// AllocMW allocates a memory window.
func (c *Context) AllocMW(pd provider.PD, typ provider.MWType) (provider.MW, error) {
	return provider.KernelObjects{File: c.file}.AllocMW(pd, typ)
}
