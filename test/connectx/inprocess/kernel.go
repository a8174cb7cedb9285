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

// Config is what a kernel is made of. The functions are called with the lock of the
// devices held, and must not use these.
type Config struct {
	// Violation, if not nil, is called for what a program or its driver must not
	// do; see Fail.
	Violation func(connectx.Violation)
	// Trace, if not nil, is called for all that the devices see and do.
	Trace func(connectx.Record)
}

// Fail returns what fails a test when a device's driver does what it must not do.
func Fail(t testing.TB) func(connectx.Violation) {
	return func(v connectx.Violation) { t.Errorf("violation: %v", v) }
}

// Kernel is a kernel with devices on one fabric. Its methods may be called
// concurrently.
type Kernel struct {
	*mlx5test.Kernel
	// Fabric is what the devices are connected to.
	Fabric  *connectx.Fabric
	devices map[string]*device
	engine  engine
}

var _ uverbs.Kernel = (*Kernel)(nil)

// New returns a kernel with devices of these names. The port of each has one GID of
// RoCE v2, 10.0.0.1 for the first.
func New(cfg Config, names ...string) *Kernel {
	k := &Kernel{Kernel: mlx5test.New(names...), Fabric: connectx.NewFabric(), devices: make(map[string]*device)}
	for i, name := range names {
		k.devices[name] = newDevice(k, cfg, name, [4]byte{10, 0, 0, byte(i + 1)})
	}
	k.Kernel.Hardware = func(info uverbs.DeviceInfo) mlx5test.Hardware { return k.devices[info.Name] }
	return k
}

// Device returns the device of a name, for faults and commands of the test's own; nil
// if there is none. To take a device away from programs, see Remove.
func (k *Kernel) Device(name string) *connectx.Device {
	if d := k.devices[name]; d != nil {
		return d.hca
	}
	return nil
}

// Remove pulls a card out: the device goes, and then its driver takes from programs what
// they have of it, so that they learn of it. Nothing brings it back. It returns whether
// there was such a device.
func (k *Kernel) Remove(name string) bool {
	if d := k.devices[name]; d != nil {
		d.hca.Remove()
	}
	return k.Kernel.Remove(name)
}

// setGID gives the device's port its address.
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
