// SPDX-License-Identifier: Apache-2.0

package uverbs

// PKeyTable is a [Kernel] that can read the P_Key tables of its devices' ports. [System] is one. No
// verbs command reads them.
type PKeyTable interface {
	// PKey returns one entry of the table of a port, counted from 1. The error for an entry that
	// does not exist wraps fs.ErrNotExist.
	PKey(d DeviceInfo, port uint8, index int) (uint16, error)
}
