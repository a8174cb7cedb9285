// SPDX-License-Identifier: Apache-2.0

package addrinfo

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// EAI is an error code of getaddrinfo(3), as rdma_getaddrinfo(3) returns it.
type EAI int

// The error codes, with the numbers of netdb.h.
const (
	NoName     EAI = -2 // unknown node
	Again      EAI = -3 // temporary failure of the name server
	Fail       EAI = -4 // permanent failure of the name server
	BadFamily  EAI = -6 // unknown address family.
	QPType     EAI = -7 // QP type of another port space (EAI_SOCKTYPE)
	Service    EAI = -8 // service unknown for the QP type.
	AddrFamily EAI = -9 // node without an address of the family
)

var eaiTexts = map[EAI]string{
	NoName:     "the node is not known",
	Again:      "the name server does not answer now",
	Fail:       "the name server cannot answer",
	BadFamily:  "the address family is not supported",
	QPType:     "the QP type does not go with the port space",
	Service:    "the service is not known for the QP type and port space",
	AddrFamily: "the node has no address of the family",
}

func (e EAI) Error() string {
	if s, ok := eaiTexts[e]; ok {
		return s
	}
	return fmt.Sprintf("getaddrinfo error %d", int(e))
}

// strerror contains the texts of gai_strerror(3).
var strerror = map[EAI]string{
	NoName:     "Name or service not known",
	Again:      "Temporary failure in name resolution",
	Fail:       "Non-recoverable failure in name resolution",
	BadFamily:  "ai_family not supported",
	QPType:     "ai_socktype not supported",
	Service:    "Servname not supported for ai_socktype",
	AddrFamily: "Address family for hostname not supported",
}

// Strerror returns the text of gai_strerror(3) for the EAI that err wraps, or err's own text if
// it wraps none.
func Strerror(err error) string {
	if code, ok := errors.AsType[EAI](err); ok && strerror[code] != "" {
		return strerror[code]
	}
	return err.Error()
}

// eaiOf wraps an error of Go's resolver with its code.
func eaiOf(err error) error {
	code := Fail
	var dns *net.DNSError
	if errors.As(err, &dns) {
		switch {
		case dns.IsNotFound:
			code = NoName
		case dns.IsTimeout, dns.IsTemporary, strings.HasPrefix(dns.Err, "dial "):
			// The last one is an unreachable name server.
			code = Again
		}
	}
	return fmt.Errorf("%w: %w", code, err)
}
