// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"strings"
)

// Format is the format of addresses on a command line, flag -f of several programs.
type Format uint8

const (
	FormatAny     Format = iota // names and IP addresses
	FormatNumeric               // IP addresses
	FormatGID                   // addresses of InfiniBand
)

// errFormat reports an unknown Format. The C programs warn about it and continue.
var errFormat = errors.New("unknown address format")

// ParseFormat parses a Format as the C programs do, by the first letters. For an unknown format
// it returns FormatAny and the C programs' warning as an error.
func ParseFormat(s string) (Format, error) {
	switch {
	case HasPrefixFold(s, "ip"):
		return FormatNumeric, nil
	case HasPrefixFold(s, "gid"):
		return FormatGID, nil
	case HasPrefixFold(s, "name"):
		return FormatAny, nil
	}
	return FormatAny, errFormat
}

// HasPrefixFold is like strings.HasPrefix, but ignores case.
func HasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
