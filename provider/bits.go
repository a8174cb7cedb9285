// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"strings"
)

// bitNames names the bits of a set, in the order in which they are written.
type bitNames []struct {
	bit  uint64
	name string
}

// format writes the names of the bits of v, joined by "|", then the bits without a name in
// hexadecimal. The empty set is "0".
func (n bitNames) format(v uint64) string {
	if v == 0 {
		return "0"
	}
	var parts []string
	for _, b := range n {
		if v&b.bit != 0 {
			parts = append(parts, b.name)
			v &^= b.bit
		}
	}
	if v != 0 {
		parts = append(parts, fmt.Sprintf("%#x", v))
	}
	return strings.Join(parts, "|")
}
