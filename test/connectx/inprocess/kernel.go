// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"encoding/binary"
	"testing"

	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx"
	"purerdma/test/connectx/prm"
	"purerdma/uverbs"
)

// Config is the configuration of a kernel. Its functions are called with the lock of the
// devices held, and must not use the devices.
type Config struct {
	// Violation, if not nil, is called for an operation that a program or its driver must not
	// do. See Fail.
	Violation func(connectx.Violation)
	// Trace, if not nil, is called for every operation of the devices.
	Trace func(connectx.Record)
}

// Fail returns a function that fails a test for each violation of a device's driver.
func Fail(t testing.TB) func(connectx.Violation) {
	return func(v connectx.Violation) { t.Errorf("violation: %v", v) }
}

// Kernel is a kernel with devices on one fabric. Its methods may be called
// concurrently.
type Kernel struct {
	*mlx5test.Kernel
	// Fabric connects the devices.
	Fabric  *connectx.Fabric
	devices map[string]*device
	engine  engine
}

var _ uverbs.Kernel = (*Kernel)(nil)

// New returns a kernel with devices of the given names. The port of each device has one RoCE v2 GID, which is
// 10.0.0.1 for the first device.
func New(cfg Config, names ...string) *Kernel {
	k := &Kernel{Kernel: mlx5test.New(names...), Fabric: connectx.NewFabric(), devices: make(map[string]*device)}
	for i, name := range names {
		k.devices[name] = newDevice(k, cfg, name, [4]byte{10, 0, 0, byte(i + 1)})
	}
	k.Kernel.Hardware = func(info uverbs.DeviceInfo) mlx5test.Hardware { return k.devices[info.Name] }
	return k
}

// Device returns the device with a name, or nil. Tests use it for faults and their own
// commands. Remove removes a device from programs.
func (k *Kernel) Device(name string) *connectx.Device {
	if d := k.devices[name]; d != nil {
		return d.hca
	}
	return nil
}

// Remove removes a card permanently. The device disappears first, and then its driver revokes
// the objects of programs, which notifies them. Remove reports whether the device existed.
func (k *Kernel) Remove(name string) bool {
	if d := k.devices[name]; d != nil {
		d.hca.Remove()
	}
	return k.Kernel.Remove(name)
}

// setGID sets the address of the device's port.
func (d *device) setGID(addr [4]byte) error {
	_, err := d.command(prm.OpSetRoCEAddress, 0x30, nil, 16, func(in []byte) {
		a := prm.RoCEAddressIn.Address.Of(in)
		gid := prm.RoCEAddress.Address.Of(a)
		gid[10], gid[11] = 0xff, 0xff
		copy(gid[12:], addr[:])
		prm.RoCEAddress.Vers.Set(a, prm.RoCEv2)
		prm.RoCEAddress.L3Type.Set(a, prm.L3IPv4)
		prm.RoCEAddress.MACHigh.Set(a, 0x0200)
		prm.RoCEAddress.MACLow.Set(a, uint64(binary.BigEndian.Uint32(addr[:])))
	})
	return err
}
