// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// GIDs is the number of addresses in the port's table.
const GIDs = 256

// address is an entry of the port's table.
type address [32]byte

func (a *address) gid() [16]byte { return [16]byte(prm.RoCEAddress.Address.Of(a[:])) }
func (a *address) used() bool    { return a.gid() != [16]byte{} }

var gidCommands = map[uint16]command{
	prm.OpSetRoCEAddress: {"SET_ROCE_ADDRESS", 0x30, 16, func(d *Device, in, _ []byte) error {
		i := prm.RoCEAddressIn.Index.Get(in)
		if i >= GIDs {
			return refuse(prm.StatusBadIndex, "the table has no address %d", i)
		}
		d.checkReserved("SET_ROCE_ADDRESS", &prm.RoCEAddress, prm.RoCEAddressIn.Address.Of(in))
		if old := &d.gids[i]; old.used() {
			if d.owned[old.gid()]--; d.owned[old.gid()] == 0 {
				delete(d.owned, old.gid())
			}
		}
		d.gids[i] = address(prm.RoCEAddressIn.Address.Of(in))
		if now := &d.gids[i]; now.used() {
			d.owned[now.gid()]++
		}
		return nil
	}},
	prm.OpQueryRoCEAddress: {"QUERY_ROCE_ADDRESS", 16, 0x30, func(d *Device, in, out []byte) error {
		i := prm.RoCEAddressIn.Index.Get(in)
		if i >= GIDs {
			return refuse(prm.StatusBadIndex, "the table has no address %d", i)
		}
		copy(prm.RoCEAddressIn.Address.Of(out), d.gids[i][:])
		return nil
	}},
}

// hasGID reports whether an address belongs to the port.
func (d *Device) hasGID(gid [16]byte) bool { return d.owned[gid] > 0 }
