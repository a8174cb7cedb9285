// SPDX-License-Identifier: Apache-2.0

// Package endian converts numbers between the byte orders of the host and of a device. Unlike package
// encoding/binary it works on numbers that are loaded and stored as a whole.
package endian
