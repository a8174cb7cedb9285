// SPDX-License-Identifier: Apache-2.0

// Package table is the memory of the tutorial's key-value store. A peer can read its slots,
// which have a fixed size, without the server's part.
package table

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/fnv"
)

// Sizes of a table in bytes and slots.
const (
	SlotSize = 64
	Slots    = 1024
	Size     = SlotSize * Slots

	header = 6 // checksum, length of the key, length of the value
)

// Errors of Encode and Decode.
var (
	ErrTooLong  = errors.New("key and value are too long")
	ErrNotFound = errors.New("no such key")
	// ErrTorn reports a slot that the server was writing while the peer read it.
	ErrTorn = errors.New("torn read")
)

// Offset returns the offset of a key's slot. If two keys have the same slot, the later one
// replaces the earlier one.
func Offset(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32()%Slots) * SlotSize
}

// Encode writes a key and its value into a slot.
func Encode(slot []byte, key, value string) error {
	if header+len(key)+len(value) > SlotSize {
		return ErrTooLong
	}
	slot[4], slot[5] = byte(len(key)), byte(len(value))
	copy(slot[header:], key+value)
	binary.BigEndian.PutUint32(slot, crc32.ChecksumIEEE(slot[4:SlotSize]))
	return nil
}

// Decode returns the value of a key in a copy of its slot.
func Decode(slot []byte, key string) (string, error) {
	if slot[4] == 0 {
		return "", ErrNotFound
	}
	if binary.BigEndian.Uint32(slot) != crc32.ChecksumIEEE(slot[4:SlotSize]) {
		return "", ErrTorn
	}
	end := header + int(slot[4])
	if end+int(slot[5]) > SlotSize || string(slot[header:end]) != key {
		return "", ErrNotFound
	}
	return string(slot[end:][:slot[5]]), nil
}
