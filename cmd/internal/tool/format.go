// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"strings"
)

// Format is how addresses are written on a command line: flag -f of several
// programs.
type Format uint8

const (
	FormatAny     Format = iota // names and IP addresses
	FormatNumeric               // IP addresses
	FormatGID                   // addresses of InfiniBand
)

// errFormat is a Format that there is not; the C programs warn of it and go on.
var errFormat = errors.New("unknown address format")

// ParseFormat reads a Format as the C programs do, by the first letters. For one
// that there is not it returns FormatAny, and what the C programs print.
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

// HasPrefixFold is strings.HasPrefix that takes capitals for small letters.
func HasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
