// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// EAI is an error code of getaddrinfo(3), as rdma_getaddrinfo(3) returns it. Look
// for one with errors.Is.
type EAI int

// What a look-up fails with, by the names and numbers of netdb.h.
const (
	EAINoName     EAI = -2 // the node is not known
	EAIAgain      EAI = -3 // the name server has no answer now
	EAIFail       EAI = -4 // the name server cannot answer
	EAIFamily     EAI = -6 // no such address family
	EAIQPType     EAI = -7 // the QP type does not go with the port space (EAI_SOCKTYPE)
	EAIService    EAI = -8 // the service is not known for the QP type
	EAIAddrFamily EAI = -9 // the node has no address of the family
)

var eaiTexts = map[EAI]string{
	EAINoName:     "the node is not known",
	EAIAgain:      "the name server does not answer now",
	EAIFail:       "the name server cannot answer",
	EAIFamily:     "the address family is not supported",
	EAIQPType:     "the QP type does not go with the port space",
	EAIService:    "the service is not known for the QP type and port space",
	EAIAddrFamily: "the node has no address of the family",
}

func (e EAI) Error() string {
	if s, ok := eaiTexts[e]; ok {
		return s
	}
	return fmt.Sprintf("getaddrinfo error %d", int(e))
}

// eaiOf gives an error of Go's resolver its code.
func eaiOf(err error) error {
	code := EAIFail
	var dns *net.DNSError
	if errors.As(err, &dns) {
		switch {
		case dns.IsNotFound:
			code = EAINoName
		case dns.IsTimeout, dns.IsTemporary, strings.HasPrefix(dns.Err, "dial "):
			// The last is a name server that there is no way to.
			code = EAIAgain
		}
	}
	return fmt.Errorf("%w: %w", code, err)
}

// addrInfoError adds the node and the service to an error of LookupAddrInfo.
func addrInfoError(node, service string, err error) error {
	return fmt.Errorf("node %q, service %q: %w", node, service, err)
}
