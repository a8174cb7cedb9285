// SPDX-License-Identifier: Apache-2.0

package tool

import "purerdma/cm"

// Listen listens for connections as librdmacm does, on loopback addresses, too:
// those mean every device to the kernel.
func Listen(lc *cm.ListenConfig, addr cm.Addr) (*cm.Listener, error) {
	return lc.ListenInfo(cm.AddrInfo{Flags: cm.AddrInfoPassive, PortSpace: cm.PortSpaceTCP, SrcAddr: addr})
}
