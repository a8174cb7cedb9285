// SPDX-License-Identifier: Apache-2.0

//go:build !race

package stream_test

// raceDetector reports whether the race detector is enabled.
const raceDetector = false
