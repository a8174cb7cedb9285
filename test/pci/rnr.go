// SPDX-License-Identifier: Apache-2.0

package pci

import "time"

// rnrTimes contains the delays of RNRDelay in units of 10 microseconds.
var rnrTimes = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRDelay returns the delay for the timer field of an RNR NAK (IBTA volume 1, table 45).
func RNRDelay(code uint8) time.Duration {
	return time.Duration(rnrTimes[code&31]) * 10 * time.Microsecond
}
