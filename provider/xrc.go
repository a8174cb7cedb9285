// SPDX-License-Identifier: Apache-2.0

package provider

// With extended reliable connections (XRC) a request names, besides the QP that it
// is sent over, the SRQ of the peer that takes it: one connection between two hosts
// serves all their processes. QPs of type XRCSend send, those of type XRCRecv
// receive, and an XRC domain says which XRCRecv QPs may use which SRQs.

// XRCOpener is a Context of a device that has XRC.
type XRCOpener interface {
	// OpenXRCD opens the XRC domain of the inode that fd is open on, or with fd of -1
	// one that no other process has. flags are O_CREAT and O_EXCL of open(2), here
	// about the domain (ibv_open_xrcd(3)).
	OpenXRCD(fd int32, flags uint32) (XRCD, error)
}

// XRCD is an XRC domain.
type XRCD interface {
	// Handle is the kernel's handle of the domain.
	Handle() uint32
	// Close closes it: EBUSY while it has SRQs or queue pairs of this process.
	Close() error
}

// XRCSRQ is an SRQ of an XRC domain.
type XRCSRQ interface {
	SRQ
	// Num is the number by which peers name the SRQ: SendWR.RemoteSRQN.
	Num() uint32
}
