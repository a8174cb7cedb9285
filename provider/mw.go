// SPDX-License-Identifier: Apache-2.0

package provider

// MWType is the type of a memory window: enum ibv_mw_type of ibv_alloc_mw(3).
type MWType uint8

// Types of memory windows. A window of type 1 belongs to its PD. While a window of type 2 is bound,
// it belongs to the QP that bound it, and can be invalidated.
const (
	MWType1 MWType = 1
	MWType2 MWType = 2
)

// MW is a memory window.
type MW interface {
	// RKey returns the window's first key.
	RKey() uint32
	// Close deallocates the window, and unbinds it.
	Close() error
}

// MWBindInfo holds the arguments of a BIND_MW request, which binds a window to a piece of a memory
// region and assigns it a new key (struct ibv_mw_bind_info of ibv_bind_mw(3)).
type MWBindInfo struct {
	Type   MWType // type of the window.
	MW     uint32 // the key that the window has now
	RKey   uint32 // the key that it gets, of which the low byte may differ
	LKey   uint32 // of the memory region, which has the right MWBind
	Addr   uint64
	Length uint64 // bytes; 0 unbinds a window of type 1
	Access Access // what peers may do
}
