// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// The C program's names of numbers.
var (
	portStates = map[uint32]string{1: "PORT_DOWN", 2: "PORT_INIT", 3: "PORT_ARMED", 4: "PORT_ACTIVE"}
	physStates = map[uint32]string{1: "SLEEP", 2: "POLLING", 3: "DISABLED", 4: "PORT_CONFIGURATION TRAINNING", 5: "LINK_UP", 6: "LINK_ERROR_RECOVERY", 7: "PHY TEST"}
	atomicCaps = map[uint32]string{0: "ATOMIC_NONE", 1: "ATOMIC_HCA", 2: "ATOMIC_GLOB"}
	mtus       = map[uint32]string{1: "256", 2: "512", 3: "1024", 4: "2048", 5: "4096"}
	widths     = map[uint32]string{1: "1", 2: "4", 4: "8", 8: "12", 16: "2"}
	vls        = map[uint32]string{1: "1", 2: "2", 3: "4", 4: "8", 5: "15"}
	speeds     = map[uint32]string{1: "2.5 Gbps", 2: "5.0 Gbps", 4: "10.0 Gbps", 8: "10.0 Gbps", 16: "14.0 Gbps", 32: "25.0 Gbps", 64: "50.0 Gbps", 128: "100.0 Gbps"}
)

// word returns "WORD (n)".
func word(words map[uint32]string, n uint32, unknown string) string {
	w, ok := words[n]
	if !ok {
		w = unknown
	}
	return fmt.Sprintf("%s (%d)", w, n)
}

// bit is a bit of a mask, and its name.
type bit struct {
	bit  uint64
	name string
}

var (
	deviceCaps = []bit{
		{1 << 0, "RESIZE_MAX_WR"}, {1 << 1, "BAD_PKEY_CNTR"}, {1 << 2, "BAD_QKEY_CNTR"}, {1 << 3, "RAW_MULTI"},
		{1 << 4, "AUTO_PATH_MIG"}, {1 << 5, "CHANGE_PHY_PORT"}, {1 << 6, "UD_AV_PORT_ENFORCE"}, {1 << 7, "CURR_QP_STATE_MOD"},
		{1 << 8, "SHUTDOWN_PORT"}, {1 << 9, "INIT_TYPE"}, {1 << 10, "PORT_ACTIVE_EVENT"}, {1 << 11, "SYS_IMAGE_GUID"},
		{1 << 12, "RC_RNR_NAK_GEN"}, {1 << 13, "SRQ_RESIZE"}, {1 << 14, "N_NOTIFY_CQ"}, {1 << 17, "MEM_WINDOW"},
		{1 << 18, "UD_IP_CSUM"}, {1 << 20, "XRC"}, {1 << 21, "MEM_MGT_EXTENSIONS"}, {1 << 23, "MEM_WINDOW_TYPE_2A"},
		{1 << 24, "MEM_WINDOW_TYPE_2B"}, {1 << 25, "RC_IP_CSUM"}, {1 << 26, "RAW_IP_CSUM"}, {1 << 29, "MANAGED_FLOW_STEERING"},
	}
	deviceCapsEx = []bit{{1 << 34, "RAW_SCATTER_FCS"}, {1 << 36, "PCI_WRITE_END_PADDING"}}
	odpCaps      = []bit{
		{1 << 0, "SUPPORT_SEND"}, {1 << 1, "SUPPORT_RECV"}, {1 << 2, "SUPPORT_WRITE"}, {1 << 3, "SUPPORT_READ"},
		{1 << 4, "SUPPORT_ATOMIC"}, {1 << 5, "SUPPORT_SRQ"},
	}
	rawCaps = []bit{{1 << 0, "C-VLAN stripping offload"}, {1 << 1, "Scatter FCS offload"}, {1 << 2, "IP csum offload"}, {1 << 3, "Delay drop"}}
	// packetTypes contains the types of QPs that send and receive packets. rateTypes contains
	// the types that can have a rate limit.
	packetTypes = []bit{{1 << 8, "SUPPORT_RAW_PACKET"}, {1 << 4, "SUPPORT_UD"}}
	rateTypes   = []bit{{1 << 8, "SUPPORT_RAW_PACKET"}, {1 << 4, "SUPPORT_UD"}, {1 << 2, "SUPPORT_RC"}}
)
