// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"purerdma/verbs"
)

// Names of the operations in an OpError.
const (
	opResolve      = "resolve"
	opResolveRoute = "resolve the route"
	opSetPath      = "set the path"
	opService      = "resolve the service"
	opJoin         = "join a multicast group"
	opLeave        = "leave a multicast group"
	opSetECE       = "set ECE"
	opCreateSRQ    = "create SRQ"
	opWriteEvent   = "write an event"
	opBind         = "bind"
	opListen       = "listen"
	opConnect      = "connect"
	opAccept       = "accept"
	opReject       = "reject"
	opDisconnect   = "disconnect"
	opAllocPD      = "make a PD"
	opAlloc        = "allocate memory"
	opCreateQP     = "create QP"
	opInitQP       = "init QP"
	opInitAttr     = "init QP attributes"
	opEstablish    = "establish"
	opNotify       = "notify"
	opNotifyMig    = "notify of a migrated path"
	opReuseAddr    = "set REUSEADDR"
	opNoReuseAddr  = "clear REUSEADDR"
	opAFOnly       = "set AFONLY"
	opTOS          = "set the type of service"
	opAckTimeout   = "set the ACK timeout"
	opMigrate      = "migrate"
	opDestroy      = "destroy"
	opOpen         = "open"
	opQuery        = "query"
	opEvent        = "wait for an event"
	opSend         = "send"
	opRecv         = "receive"
	opRead         = "read"
	opAtomic       = "atomic"
	opWrite        = "write"
	opProbe        = "probe"
	opKeepAlive    = "keepalive"
	opConnection   = "connection"
	opWork         = "work request"
	opCompletion   = "invalid completion" // only in histories
)

// OpError is the error of this package. It holds the operation, the addresses that it was
// about, and the cause. It unwraps to the cause. The cause unwraps to a syscall.Errno, to
// net.ErrClosed, to os.ErrDeadlineExceeded or the context's error, or is one of
//
//   - *RejectError, *UnreachableError: there is no connection;
//   - *DisconnectedError, *BrokenError, *verbs.DeviceRemovedError: the connection is lost;
//   - *verbs.WCError: a work request has failed, and its Status has the reason;
//   - *StateError, *ArgumentError: the call was wrong. Both wrap syscall.EINVAL.
type OpError struct {
	Op     string // "connect", "accept", ...
	Local  Addr   // zero if not known
	Remote Addr   // zero if there is none
	Err    error
}

func (e *OpError) Error() string {
	s := "rdma " + e.Op
	switch {
	case e.Local.IsValid() && e.Remote.IsValid():
		s += " " + e.Local.String() + "->" + e.Remote.String()
	case e.Remote.IsValid():
		s += " " + e.Remote.String()
	case e.Local.IsValid():
		s += " " + e.Local.String()
	}
	return s + ": " + e.Err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

// Timeout reports whether a deadline passed or the network timed out.
func (e *OpError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// Temporary is part of net.Error. It reports whether the operation may succeed later. That is
// the case after a timeout, unless the timeout has ended the connection. It is also the case
// when the process or the system was out of file descriptors or memory (EMFILE, ENFILE, ENOMEM,
// ENOBUFS). A server whose Accept fails in this way waits a little and continues, unless its
// own context has ended.
func (e *OpError) Temporary() bool {
	if broken := (*BrokenError)(nil); errors.As(e.Err, &broken) {
		return false
	}
	return e.Timeout() || exhausted(e.Err)
}

// exhausted reports whether err means that descriptors or memory ran out.
func exhausted(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

var _ net.Error = (*OpError)(nil)

// Reasons of a rejection on InfiniBand and RoCE (IBTA specification, volume 1, 12.6.7.2; enum
// ib_cm_rej_reason) that have a name in this package. Any other reason is passed on as a
// number.
const (
	RejectNoQP             = 1
	RejectNoEEC            = 2
	RejectNoResources      = 3
	RejectTimeout          = 4
	RejectUnsupported      = 5
	RejectInvalidServiceID = 8
	// RejectStaleConn means that the peer still has a connection with the same QP number of this
	// device, whose end it did not detect. It ends that connection, and a later dial succeeds.
	RejectStaleConn    = 10
	RejectConsumer     = 28
	RejectVendorOption = 35
)

var rejectReasons = map[int]string{
	RejectNoQP:             "no QP available",
	RejectNoEEC:            "no EEC available",
	RejectNoResources:      "no resources available",
	RejectTimeout:          "timeout",
	RejectUnsupported:      "unsupported request",
	RejectInvalidServiceID: "no listener on that port",
	RejectStaleConn:        "stale connection",
	RejectVendorOption:     "vendor option not supported",
}

// RejectError reports that the peer refused a connection. It matches ECONNREFUSED in errors.Is,
// whatever the reason.
type RejectError struct {
	Transport verbs.Transport
	// Status is the event's status. On InfiniBand and RoCE it is the reason of the REJ message,
	// on iWARP a negative errno.
	Status int
	// Reason is Status on InfiniBand and RoCE, one of Reject*, and 0 on iWARP.
	Reason int
	// PrivateData is the private data of the rejection, nil if there is none. On InfiniBand and
	// RoCE it has the size of the message's field, 148 bytes, and zeros fill the rest. The
	// message has no length, so a field that holds only zeros counts as none.
	PrivateData []byte
}

// Error returns the reason and the private data, quoted and cut to 80 bytes. The peer chooses
// the text of the private data.
func (e *RejectError) Error() string { return e.reason() + quoteData(e.PrivateData) }

func (e *RejectError) reason() string {
	switch {
	case e.Status == -int(syscall.ECONNREFUSED):
		return "rejected: no listener on that port (" + syscall.ECONNREFUSED.Error() + ")"
	case e.Status < 0:
		return "rejected by the peer (" + syscall.Errno(-e.Status).Error() + ")"
	}
	if e.Status == RejectConsumer {
		return fmt.Sprintf("rejected by the application (reason %d)", e.Status)
	}
	if name, ok := rejectReasons[e.Status]; ok {
		return fmt.Sprintf("rejected: %s (reason %d)", name, e.Status)
	}
	return fmt.Sprintf("rejected (reason %d)", e.Status)
}

// Is reports whether target is syscall.ECONNREFUSED. That is the errno of every rejection, as
// in an rdma_connect(3) that waits. On InfiniBand and RoCE, Reason distinguishes a port without
// a listener from a refusal by the application. On iWARP, Unwrap does.
func (e *RejectError) Is(target error) bool { return target == syscall.ECONNREFUSED }

// Unwrap returns the errno of iWARP. It is ECONNREFUSED if the port has no listener, and
// ECONNRESET if the application has refused or its backlog is full. On erdma it is always
// ECONNRESET.
func (e *RejectError) Unwrap() error { return errno(e.Status) }

// errno returns the error for a negative status, and nil for any other status.
func errno(status int) error {
	if status < 0 {
		return syscall.Errno(-status)
	}
	return nil
}

// UnreachableError reports that the peer or the group cannot be reached. No way to it was
// found, its host did not answer, or this host could not complete the connection or join the
// group.
type UnreachableError struct {
	// Event is EventAddrError, EventRouteError, EventAddrInfoError, EventUnreachable,
	// EventConnectError or EventMulticastError.
	Event EventType
	// Status is a negative errno, -1 if the library found the failure, 0 if the kernel reports
	// no reason, or for a datagram ID one of SIDR*.
	Status int
	// Err is the failure in the library, nil if the kernel reported the failure.
	Err error
	// PrivateData is the private data with which the peer of a datagram ID has refused, nil if
	// there is none. As in RejectError, zeros fill its field, which has 136 bytes.
	PrivateData []byte
}

// Negative answers to the look-up of a datagram service (IBTA specification, volume 1,
// 12.11.2.2; enum ib_cm_sidr_status).
const (
	SIDRNoService = 1
	SIDRRejected  = 2
	SIDRNoQP      = 3
)

var sidrStatuses = map[int]string{
	SIDRNoService: "no listener on that port",
	SIDRRejected:  "rejected by the application",
	SIDRNoQP:      "no QP available",
}

// Is reports whether target is syscall.ECONNREFUSED and the peer's host has answered that the
// port has no listener.
func (e *UnreachableError) Is(target error) bool {
	return target == syscall.ECONNREFUSED && e.Event == EventUnreachable && e.Status == SIDRNoService
}

func (e *UnreachableError) Error() string {
	what := "the peer does not answer"
	switch e.Event {
	case EventAddrError:
		what = "the address did not resolve"
	case EventRouteError:
		what = "the route did not resolve"
	case EventAddrInfoError:
		what = "the service was not found"
	case EventConnectError:
		what = "the connection could not be completed"
	case EventMulticastError:
		what = "the group cannot be used"
	}
	switch {
	case e.Err != nil:
		return what + ": " + e.Err.Error()
	case e.Status < 0:
		return what + ": " + syscall.Errno(-e.Status).Error()
	}
	if name, ok := sidrStatuses[e.Status]; ok && e.Event == EventUnreachable {
		return fmt.Sprintf("%s (SIDR status %d)", name, e.Status) + quoteData(e.PrivateData)
	}
	return fmt.Sprintf("%s (status %d)", what, e.Status) + quoteData(e.PrivateData)
}

// Unwrap returns Err, or the errno that the kernel returned.
func (e *UnreachableError) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return errno(e.Status)
}

// Timeout reports whether the network timed out, or Err wraps ETIMEDOUT.
func (e *UnreachableError) Timeout() bool { return errors.Is(e, syscall.ETIMEDOUT) }

// ArgumentError reports that an argument of a call, or a field of one, cannot be used. The call
// has sent and changed nothing. The exception is a request, which is rejected if its Accept
// fails. ArgumentError wraps syscall.EINVAL.
type ArgumentError struct {
	Name   string // the argument or field, such as "InitiatorDepth" or "len(PrivateData)".
	Value  any    // the value that was passed.
	Max    int    // largest possible value, or -1 if the value is wrong for another reason
	Reason string // why the value is wrong: for example, what sets the limit
}

func (e *ArgumentError) Error() string {
	if e.Max < 0 {
		return fmt.Sprintf("%s is %v: %s", e.Name, e.Value, e.Reason)
	}
	return fmt.Sprintf("%s is %v, at most %d is possible: %s", e.Name, e.Value, e.Max, e.Reason)
}

// Unwrap returns EINVAL.
func (e *ArgumentError) Unwrap() error { return syscall.EINVAL }
