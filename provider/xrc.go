// SPDX-License-Identifier: Apache-2.0

package provider

// With extended reliable connections (XRC) one connection between two hosts serves all their
// processes. A request names the SRQ of the peer that takes it, besides the QP that sends it. QPs
// of type XRCSend send, and QPs of type XRCRecv receive. An XRC domain limits which XRCRecv QPs may
// use which SRQs.

// XRCOpener is a Context of a device that has XRC.
type XRCOpener interface {
	// OpenXRCD opens the XRC domain of the inode of the open file fd. With fd of -1, it opens a
	// domain that no other process has. flags are O_CREAT and O_EXCL of open(2), here about the
	// domain (ibv_open_xrcd(3)).
	OpenXRCD(fd int32, flags uint32) (XRCD, error)
}

// XRCD is an XRC domain.
type XRCD interface {
	// Handle is the kernel's handle of the domain.
	Handle() uint32
	// Close closes the domain. It returns EBUSY while the domain has SRQs or queue pairs of this
	// process.
	Close() error
}

// XRCSRQ is an SRQ of an XRC domain.
type XRCSRQ interface {
	SRQ
	// Num is the number by which peers name the SRQ: SendWR.RemoteSRQN.
	Num() uint32
}
