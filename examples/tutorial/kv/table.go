// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"
)

const (
	slotSize  = 64
	tableSize = 1024 * slotSize
	header    = 6 // checksum, length of the key, length of the value
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
		slot[4], slot[5] = byte(len(key)), byte(len(value))
		copy(slot[header:], key+value)
		binary.BigEndian.PutUint32(slot, crc32.ChecksumIEEE(slot[4:]))
	}
}

// lookup returns the value in a copy of the slot of a key. It finds none if the slot has another
// key, or if the server wrote the slot during the READ, so that the checksum is wrong.
func lookup(slot []byte, key string) (value string, found bool) {
	end := header + len(key)
	if int(slot[4]) != len(key) || end+int(slot[5]) > slotSize || string(slot[header:end]) != key ||
		binary.BigEndian.Uint32(slot) != crc32.ChecksumIEEE(slot[4:]) {
		return "", false
	}
	return string(slot[end:][:slot[5]]), true
}
