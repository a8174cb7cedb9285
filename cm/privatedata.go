// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"fmt"
	"strconv"

	"purerdma/verbs"
)

// ipHeader is what the kernel puts before the private data of a request between
// IP addresses: ports and addresses, for the listener's side of the kernel.
const ipHeader = 36

// privateDataLimit returns how many bytes of private data a call can carry, and
// why: on InfiniBand the sizes of the CM's messages (IBTA specification, volume 1,
// 12.6 and 12.11).
func privateDataLimit(op string, transport verbs.Transport, datagram, afIB bool) (limit int, why string) {
	if transport == verbs.TransportIWARP {
		// The frame has room for 512, the kernel's interface for 255; siw adds
		// 4 in eight bits.
		return 251, "more does not get through the kernel's iWARP drivers"
	}
	switch {
	case op == opConnect && datagram:
		limit, why = 216, "the CM's SIDR_REQ message"
	case op == opConnect:
		limit, why = 92, "the CM's REQ message"
	case datagram:
		return 136, "the CM's SIDR_REP message"
	case op == opReject:
		return 148, "the CM's REJ message"
	default:
		return 196, "the CM's REP message"
	}
	if !afIB {
		limit -= ipHeader
		why += fmt.Sprintf(", less %d bytes for the IP addresses", ipHeader)
	}
	return limit, why
}

// checkPrivateData checks a length before the kernel sees it: there, an accept
// that fails has refused the peer.
func (id *ID) checkPrivateData(op string, b []byte) error {
	limit, why := privateDataLimit(op, id.transport(), id.datagram(), id.LocalAddr().isIB())
	if len(b) > limit {
		return id.opError(op, &ArgumentError{Name: "len(PrivateData)", Value: len(b), Max: limit, Reason: why})
	}
	return nil
}

// checkParam is checkPrivateData for parameters that may be nil.
func (id *ID) checkParam(op string, param *ConnParam) error {
	if param == nil {
		return nil
	}
	return id.checkPrivateData(op, param.PrivateData)
}

// refusalData returns the private data of a refusal, nil if the peer gave none. The
// messages of InfiniBand and RoCE have no length field: the kernel hands out the
// whole field. One that holds only zeros is taken for an absent one.
func refusalData(transport verbs.Transport, field []byte) []byte {
	if transport != verbs.TransportIWARP && len(bytes.TrimRight(field, "\x00")) == 0 {
		return nil
	}
	return field
}

// maxQuoted is how many bytes of a peer's private data an error text shows.
const maxQuoted = 80

// quoteData returns private data for the end of an error text: quoted, in ASCII,
// without the zeros that fill the message, and cut to maxQuoted bytes. It returns ""
// if there is none.
func quoteData(b []byte) string {
	b = bytes.TrimRight(b, "\x00")
	switch {
	case len(b) == 0:
		return ""
	case len(b) > maxQuoted:
		return ": " + strconv.QuoteToASCII(string(b[:maxQuoted])) + "..."
	}
	return ": " + strconv.QuoteToASCII(string(b))
}
