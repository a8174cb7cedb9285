// SPDX-License-Identifier: Apache-2.0

// Package enum formats enumerations.
package enum

import "fmt"

// Name returns names[v], or kind and the number for a value without a name.
func Name[T ~uint8 | ~uint16 | ~uint32](v T, kind string, names []string) string {
	if uint64(v) < uint64(len(names)) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint64(v))
}
