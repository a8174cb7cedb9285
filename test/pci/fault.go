// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// FaultNumbers parses the arguments of a fault, which are numbers of 32 bits. They are decimal,
// or hexadecimal with 0x. names maps each fault to the names of its numbers.
func FaultNumbers(names map[string]string, fault string, args []string) ([]uint32, error) {
	want, ok := names[fault]
	if !ok {
		return nil, errors.New("unknown fault, want one of " + strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	if len(args) != len(strings.Fields(want)) {
		return nil, errors.New("want the numbers " + want)
	}
	numbers := make([]uint32, len(args))
	for i, a := range args {
		n, err := strconv.ParseUint(a, 0, 32)
		if err != nil {
			return nil, err
		}
		numbers[i] = uint32(n)
	}
	return numbers, nil
}
