// SPDX-License-Identifier: Apache-2.0

package main

import "hash/fnv"

const (
	slotSize  = 64
	tableSize = 1024 * slotSize
	header    = 2 // length of the key, length of the value
)

// offset returns the offset of the slot of a key. If two keys have the same slot, the later one
// replaces the earlier one.
func offset(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32()%(tableSize/slotSize)) * slotSize
}

// set writes a value into a slot. A value that is too long leaves the slot empty.
func set(slot []byte, key, value string) {
	clear(slot)
	if header+len(key)+len(value) <= slotSize {
		slot[0], slot[1] = byte(len(key)), byte(len(value))
		copy(slot[header:], key+value)
	}
}

// lookup returns the value in a copy of the slot of a key. It finds none if the slot has another
// key.
func lookup(slot []byte, key string) (value string, found bool) {
	end := header + len(key)
	if int(slot[0]) != len(key) || end+int(slot[1]) > slotSize || string(slot[header:end]) != key {
		return "", false
	}
	return string(slot[end:][:slot[1]]), true
}
