// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"syscall"

	"purerdma/uverbs"
)

// PKey returns one entry of the P_Key table of a port, counted from 1 (ibv_query_pkey(3)). The
// highest bit is set if the port is a full member of the partition. On Ethernet there is one entry,
// 0xffff. The error for an entry that does not exist wraps fs.ErrNotExist. It reads sysfs.
func (d *Device) PKey(port uint8, index int) (uint16, error) {
	key, err := d.pkey(port, index)
	return key, d.opError("query P_Key of", err)
}

func (d *Device) pkey(port uint8, index int) (uint16, error) {
	if index < 0 {
		return 0, fmt.Errorf("index %d: %w", index, syscall.EINVAL)
	}
	k := d.host.Kernel
	if k == nil {
		k = uverbs.System{}
	}
	t, ok := k.(uverbs.PKeyTable)
	if !ok {
		return 0, fmt.Errorf("P_Keys: %w", errors.ErrUnsupported)
	}
	return t.PKey(d.info, port, index)
}
