// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/netns"
	"purerdma/verbs"
)

// errNoDeviceThere is librdmacm's error for an address that resolves without a
// device.
var errNoDeviceThere = fmt.Errorf("the interface of the route has no RDMA device: %w", syscall.ENODEV)

// errLoopback rejects a listener on a loopback address. The kernel would use the unspecified
// address instead (cma_any_addr), and then accept peers that a loopback address must keep out.
var errLoopback = fmt.Errorf("no RDMA device has a loopback address: "+
	"use the address of an interface, or no host to listen on all devices: %w", syscall.EADDRNOTAVAIL)

const listIDs = `"rdma resource show cm_id" lists all IDs`

// hint adds the usual cause to the errno of a bind or a resolution. It does not change a
// *StateError or an *ArgumentError, because these name their cause.
func hint(err error, local, remote Addr) error {
	var state *StateError
	var argument *ArgumentError
	if errors.As(err, &state) || errors.As(err, &argument) {
		return err
	}
	var why string
	bad := withoutZone(local)
	if local.Addr().Zone() == "" {
		// If local names an interface, remote is on the same interface.
		bad = cmp.Or(bad, withoutZone(remote))
	}
	switch {
	// The kernel also returns EADDRNOTAVAIL for a port that is in use, if one of the two
	// addresses is unspecified (cma_check_port).
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL) && local.IsValid() && local.Addr().IsUnspecified():
		why = "another ID uses the port: " + listIDs
	case errors.Is(err, syscall.EADDRNOTAVAIL) && local.IsValid() && local.Port() != 0:
		why = "no interface has " + local.Addr().String() + ", or an ID uses the port on all addresses: " + listIDs
	case errors.Is(err, syscall.EADDRNOTAVAIL) && local.IsValid():
		why = "no interface has " + local.Addr().String()
	case bad != "" && slices.ContainsFunc(zoneErrors, func(e error) bool { return errors.Is(err, e) }):
		why = bad + " is link-local: name its interface, as in " + bad + "%eth0"
	case errors.Is(err, syscall.ENODEV) && (toLoopback(remote) || local.Addr().IsLoopback()),
		// EINVAL comes from the routing if the packets would leave the host, and from iWARP.
		errors.Is(err, syscall.EINVAL) && (local.Addr().IsLoopback() || toLoopback(remote) && !local.IsValid()):
		why = "no RDMA device has a loopback address: use the address of an interface that has a device"
		if remote.Addr().IsUnspecified() {
			why = "the kernel treats " + remote.Addr().String() + " as a loopback address, and " + why
		}
	case errors.Is(err, syscall.ENETUNREACH) && remote.Addr().Is4In6():
		why = "the kernel looks for an IPv6 route: use " + remote.unmapped().Addr().String()
	case errors.Is(err, syscall.ENODEV) && local.IsValid():
		why = "the interface with " + local.Addr().String() + " has no RDMA device"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, why)
}

// zoneErrors lists the errors that an address without a zone leads to. The kernel looks for
// such a peer on an arbitrary interface.
var zoneErrors = []error{syscall.EINVAL, syscall.ENETUNREACH, syscall.ENODEV, syscall.ETIMEDOUT, os.ErrDeadlineExceeded}

// unresolved returns the *OpError of a resolution that has begun, with a hint. err is the
// error of the kernel's event, or of the context if it ended first.
func (id *ID) unresolved(err error) error {
	asked := id.askedFor()
	oe := id.opError(opResolve, err).(*OpError)
	if !oe.Local.IsValid() {
		oe.Local = asked.from
	}
	oe.Err = hint(oe.Err, asked.from, asked.to)
	return oe
}

// withoutZone returns the IP of a link-local address that names no interface, or "" for any
// other address.
func withoutZone(a Addr) string {
	if ip := a.Addr(); ip.Is6() && !ip.Is4In6() && ip.IsLinkLocalUnicast() && ip.Zone() == "" {
		return ip.String()
	}
	return ""
}

// toLoopback reports whether the kernel resolves an address without looking for its owner. The
// kernel then takes the device that the ID is bound to, or any device (cma_any_addr). On
// InfiniBand and RoCE no listener gets a request for such an address (validate_net_dev), so no
// peer answers. On iWARP the kernel's TCP looks for the peer.
func toLoopback(a Addr) bool { return a.Addr().IsLoopback() || a.Addr().IsUnspecified() }

// hintOfSilence adds the possible causes to the error of a peer that has not answered, if the
// peer has an address of this host. The kernel resolves such an address even if no RDMA device
// has it, and even if packets of one device do not reach the other.
func hintOfSilence(err error, netNS string) error {
	oe, ok := err.(*OpError)
	if !ok || !oe.Timeout() || oe.Remote.Addr() == oe.Local.Addr() {
		return err
	}
	dev := interfaceWith(netNS, oe.Remote.Addr())
	if dev == "" {
		return err
	}
	hinted := *oe
	hinted.Err = fmt.Errorf("%w (%v is the address of %s on this host: is a listener running there, has %s an RDMA device, and can %v reach it?)",
		oe.Err, oe.Remote.Addr(), dev, dev, oe.Local.Addr())
	return &hinted
}

// interfaceWith returns the name of the interface that has an address in a network namespace,
// or "" if there is none.
func interfaceWith(netNS string, ip netip.Addr) (name string) {
	netns.Do(netNS, func() error {
		ifs, err := net.Interfaces()
		for _, i := range ifs {
			addrs, _ := i.Addrs() // empty if the interface has just been removed
			for _, a := range addrs {
				if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == ip.WithZone("").Unmap() {
					name = i.Name
				}
			}
		}
		return err
	})
	return name
}

// hintedError is the error of a completion with its most likely cause.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() + ": " + e.hint }

// Unwrap returns the error of the completion.
func (e *hintedError) Unwrap() error { return e.err }

// hinted adds the meaning of the status for op to the error of a failed request, unless the
// error has a hint already.
func (c *Conn) hinted(op string, err error, wc *verbs.WCError) error {
	if old := new(hintedError); errors.As(err, &old) {
		return err
	}
	dev := c.Device()
	if dev == nil {
		return err // the ID has been destroyed
	}
	if hint := wcHint(op, wc.Status, dev.DriverID()); hint != "" {
		return &hintedError{err, hint}
	}
	return err
}

// Hints on the causes of errors.
const (
	hintNoReceive = "the peer has no receive posted"
	hintNoAnswer  = "the peer does not answer"
	hintTooLong   = "the message is longer than the receive"
	hintPeerLong  = "the message is longer than the peer's receive"
	hintPeerKey   = "the key is stale or lacks that right, or the range is outside the peer's memory"
	hintLocalKey  = "the key of the local memory is stale or of another PD"
	hintLocalFill = hintLocalKey + ", or lacks LocalWrite"
	hintDevice    = "the device reported an invalid completion (see Host.Log)"
	hintRefused   = "the peer's QP does not permit the operation"
)

// wcHint returns the most likely cause of a status. It returns "" if the status itself names
// the cause or has several likely causes. rxe and siw have other statuses for some errors
// (docs/reference/driver-faults.md). op is one of the blocking operations, or opWork for an
// unknown one.
func wcHint(op string, status verbs.WCStatus, driver abi.DriverID) string {
	send, rxe, siw := op == opSend, driver == abi.RDMA_DRIVER_RXE, driver == abi.RDMA_DRIVER_SIW
	switch status {
	case verbs.WCRNRRetryExcErr:
		return hintNoReceive
	case verbs.WCRetryExcErr:
		if rxe && (send || op == opWork) {
			return hintNoAnswer + ", or has no receive posted"
		}
		return hintNoAnswer
	case verbs.WCLocLenErr:
		if op == opRecv {
			return hintTooLong
		}
	case verbs.WCRemInvReqErr:
		switch op {
		case opSend:
			return hintPeerLong
		case opRead, opWrite, opAtomic, opProbe:
			return hintRefused
		}
	case verbs.WCRemOpErr:
		if rxe && (send || op == opWork) {
			return hintPeerLong + ", or its memory key is wrong"
		}
	case verbs.WCRemAccessErr:
		return hintPeerKey
	case verbs.WCLocQPOpErr:
		switch {
		case op == opRecv && rxe:
			return hintTooLong + ", or " + hintLocalFill
		case siw: // siw also reports it for a message that is too long and after a disconnect
			return ""
		}
		return localKeyHint(op)
	case verbs.WCLocProtErr:
		return localKeyHint(op)
	case verbs.WCFatalErr: // package mlx5 reports it when it ends a QP by itself
		return hintDevice
	case verbs.WCGeneralErr: // siw reports it
		if op == opRecv {
			return hintLocalFill
		}
	}
	return ""
}

// localKeyHint returns the hint on the local memory of an operation.
func localKeyHint(op string) string {
	switch op {
	case opSend, opWrite:
		return hintLocalKey
	case opRecv, opRead, opAtomic:
		return hintLocalFill
	}
	return ""
}
