// SPDX-License-Identifier: Apache-2.0

package uverbs

// PKeyTable is a [Kernel] that can read the P_Key tables of its devices' ports.
// [System] is one. No verbs command does.
type PKeyTable interface {
	// PKey returns one entry of the table of a port, counted from 1. An entry
	// that is not there gives an error that wraps fs.ErrNotExist.
	PKey(d DeviceInfo, port uint8, index int) (uint16, error)
}
